package tandemmq;

import com.google.gson.Gson;
import java.io.BufferedOutputStream;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/**
 * Opens store directories with the released RocketMQ store and prints what it serves.
 *
 * <pre>
 * read   DIR [options]               open, wait until dispatched, print every queue and message, shut down
 * append DIR [options] --messages N  open, print, send N messages to the queues that exist, print again, shut down
 * ask    DIR [options] --calls FILE  open, wait until dispatched, answer the calls of FILE line by line (see Ask), shut down
 * batch  FILE [JOBS]                 FILE holds one command a line, as a JSON array of words; JOBS of them run at a time
 *
 * --mode file|rocks|combine  --prefer file|rocks  --assign file|rocks  --separate  --lmq  --lmq-rocks
 * --prop-crc           records carry a checksum of their own, and it is the one that counts
 * --batch-topic NAME   that topic has batch queues
 * --recover-all        after an unclean end all log files count for the queues, where the released store takes the last 10
 * --log                print the log too, record by record
 * --config A=1,B=2     further properties of the store, named as in broker.conf
 * --commitlog-size B  --cq-size B  --index-slots N  --index-num N      sizes: the released store's where left out
 * --out FILE                                                           where the report goes instead of standard output
 * </pre>
 *
 * Opening changes a directory: give it a copy. Batch prints one line a command, {"t":"done","n":..,"ok":..,"error":..}. Exit
 * status: 0 all went well, 1 a command failed, 2 wrong words.
 */
public final class StoreCheck {
    private static final long BATCH_LIMIT_MS = TimeUnit.MINUTES.toMillis(4);

    private StoreCheck() { }

    public static void main(String[] words) {
        Program.run(() -> {
            if (words.length >= 2 && words[0].equals("batch")) {
                return batch(Path.of(words[1]), words.length > 2 ? Integer.parseInt(words[2]) : 1);
            }
            run(new Args(List.of(words)));
            return true;
        });
    }

    private static void run(Args args) throws Exception {
        String file = args.text("out", "");
        try (PrintStream out = file.isEmpty() ? System.out
            : new PrintStream(new BufferedOutputStream(new FileOutputStream(file)), false, StandardCharsets.UTF_8)) {
            try (OpenStore store = new OpenStore(args)) {
                requireNoListeningSocket();
                if (args.verb.equals("ask")) {
                    new Ask(store, out).all(Path.of(args.text("calls", "")));
                } else {
                    new Report(store, out, args.on("log")).all();
                }
                if (args.verb.equals("append")) {
                    new Append(store, args.on("lmq")).run(args.number("messages", 10), out);
                    new Report(store, out, args.on("log")).all();
                }
            }
            if (new File(args.dir, "abort").exists()) {
                throw new IllegalStateException("the store did not shut down cleanly: abort is still there");
            }
            if (out.checkError()) {
                throw new IOException("the report could not be written");
            }
        }
    }

    private static boolean batch(Path file, int jobs) throws Exception {
        List<Args> commands = new ArrayList<>();
        for (String line : Files.readAllLines(file)) {
            commands.add(new Args(List.of(new Gson().fromJson(line, String[].class))));
        }
        ExecutorService pool = Executors.newFixedThreadPool(jobs);
        List<Future<Void>> results = pool.invokeAll(commands.stream().map(c -> (java.util.concurrent.Callable<Void>) () -> {
            run(c);
            return null;
        }).toList(), BATCH_LIMIT_MS, TimeUnit.MILLISECONDS);
        boolean ok = true;
        for (int n = 0; n < results.size(); n++) {
            String error = null;
            try {
                results.get(n).get();
            } catch (CancellationException e) {
                error = "not finished after " + BATCH_LIMIT_MS + " ms";
            } catch (java.util.concurrent.ExecutionException e) {
                StringWriter text = new StringWriter();
                e.getCause().printStackTrace(new PrintWriter(text));
                error = text.toString();
            }
            ok &= error == null;
            System.out.println(Report.line("t", "done", "n", n, "ok", error == null, "error", error));
        }
        return ok;
    }

    /** The program must not be reachable from anywhere: looks through this process's sockets, where the system shows them. */
    static void requireNoListeningSocket() throws IOException {
        List<String> own = new ArrayList<>();
        File[] descriptors = new File("/proc/self/fd").listFiles();
        for (File fd : descriptors == null ? new File[0] : descriptors) {
            try {
                own.add(Files.readSymbolicLink(fd.toPath()).toString());
            } catch (IOException e) {
                continue; // closed in between
            }
        }
        for (String table : List.of("/proc/self/net/tcp", "/proc/self/net/tcp6")) {
            if (!Files.exists(Path.of(table))) {
                continue;
            }
            for (String row : Files.readAllLines(Path.of(table))) {
                String[] field = row.trim().split("\\s+");
                if (field.length > 9 && field[3].equals("0A") && own.contains("socket:[" + field[9] + "]")) {
                    throw new IllegalStateException("this process listens on " + field[1]);
                }
            }
        }
    }
}
