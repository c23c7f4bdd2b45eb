package tandemmq;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** One command: its verb, the store directory and the options. Unknown options are refused, so that no typing error passes. */
final class Args {
    private static final Set<String> VALUES = Set.of("mode", "prefer", "assign", "messages", "out",
        "commitlog-size", "cq-size", "index-slots", "index-num", "batch-topic", "calls", "config");
    private static final Set<String> SWITCHES = Set.of("separate", "lmq", "lmq-rocks", "prop-crc", "log", "recover-all");

    final String verb;
    final String dir;
    private final Map<String, String> given = new HashMap<>();

    Args(List<String> words) {
        if (words.size() < 2) {
            throw new UsageException("want: read|append|ask DIR [options]");
        }
        verb = words.get(0);
        dir = words.get(1);
        if (!List.of("read", "append", "ask").contains(verb)) {
            throw new UsageException("unknown command " + verb);
        }
        for (int i = 2; i < words.size(); i++) {
            String word = words.get(i);
            String name = word.startsWith("--") ? word.substring(2) : "";
            if (SWITCHES.contains(name)) {
                given.put(name, "");
            } else if (VALUES.contains(name) && i + 1 < words.size()) {
                given.put(name, words.get(++i));
            } else {
                throw new UsageException("unknown or unfinished option " + word);
            }
        }
        oneOf("mode", "file", "rocks", "combine");
        oneOf("prefer", "file", "rocks");
        oneOf("assign", "file", "rocks");
    }

    private void oneOf(String name, String... allowed) {
        String value = text(name, allowed[0]);
        if (!List.of(allowed).contains(value)) {
            throw new UsageException("--" + name + " " + value + ": want one of " + String.join(", ", allowed));
        }
    }

    boolean on(String name) {
        return given.containsKey(name);
    }

    String text(String name, String unset) {
        return given.getOrDefault(name, unset);
    }

    int number(String name, int unset) {
        try {
            return given.containsKey(name) ? Integer.parseInt(given.get(name)) : unset;
        } catch (NumberFormatException e) {
            throw new UsageException("--" + name + " " + given.get(name) + ": not a number");
        }
    }

    /** Wrong words on the command line: exit status 2. */
    static final class UsageException extends IllegalArgumentException {
        private static final long serialVersionUID = 1;

        UsageException(String message) {
            super(message);
        }
    }
}
