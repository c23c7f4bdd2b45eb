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
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs commands of mqadmin, each as the tool would in a process of its own: a line of standard input is a JSON array of
 * its words, a line of standard output a JSON object with what it printed. Ends with its input.
 */
public final class AdminRun {
    private AdminRun() {
    }

    public static void main(String[] none) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Gson gson = new Gson();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = gson.fromJson(line, String[].class);
            ByteArrayOutputStream text = new ByteArrayOutputStream();
            PrintStream to = new PrintStream(text, true, StandardCharsets.UTF_8);
            System.setOut(to);
            System.setErr(to);
            String failure = "";
            try {
                MQAdminStartup.main0(words, null);
            } catch (Throwable t) {
                failure = t.toString();
            }
            to.flush();
            answers.println(gson.toJson(Map.of("text", text.toString(StandardCharsets.UTF_8), "failure", failure)));
        }
        System.exit(0);
    }
}
