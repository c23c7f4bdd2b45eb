package tandemmq;

import com.google.gson.Gson;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/**
 * A process that answers requests: a line of standard input is a JSON array of words, a line of standard output a JSON object with what was said, {"text": ..., "failure": ...}. It
 * ends with its input.
 */
final class Loop {
    private Loop() {
    }

    interface Answer {
        /** Returns what to say; null for what is printed meanwhile. */
        String give(String[] words) throws Exception;
    }

    static void run(Answer answer) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Gson gson = new Gson();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ByteArrayOutputStream text = new ByteArrayOutputStream();
            PrintStream to = new PrintStream(text, true, StandardCharsets.UTF_8);
            System.setOut(to);
            System.setErr(to);
            String failure = "";
            String said = null;
            try {
                said = answer.give(gson.fromJson(line, String[].class));
            } catch (Throwable t) {
                failure = t.toString();
            }
            to.flush();
            answers.println(gson.toJson(Map.of("text", said != null ? said : text.toString(StandardCharsets.UTF_8), "failure", failure)));
        }
        Runtime.getRuntime().halt(0); // what was to be shut down, was
    }
}
