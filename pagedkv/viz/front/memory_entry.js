// The memory view as anywidget loads it.

import { memoryWidget } from "./memory_widget.js";

export default memoryWidget();
