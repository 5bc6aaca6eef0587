package pagedkv.jvm;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;

/** Java's flight recorder, on from the beginning of this until {@link #stop}; it leaves no file behind. */
final class FlightRecording implements AutoCloseable {

    private final Recording recording = new Recording();

    /** Starts to record the events of these names, without stack traces and however short they are. */
    FlightRecording(String... events) {
        for (String name : events) {
            recording.enable(name).withoutStackTrace().withoutThreshold();
        }
        recording.start();
    }

    /** Ends it. What was recorded, in the order of time. */
    List<RecordedEvent> stop() throws IOException {
        recording.stop();
        Path file = Files.createTempFile("pagedkv-jfr-" + ProcessHandle.current().pid() + "-", ".jfr");
        try {
            recording.dump(file);
            var events = new ArrayList<>(RecordingFile.readAllEvents(file));
            events.sort(Comparator.comparing(RecordedEvent::getStartTime));
            return events;
        } finally {
            Files.delete(file);
        }
    }

    @Override
    public void close() {
        recording.close();
    }
}
