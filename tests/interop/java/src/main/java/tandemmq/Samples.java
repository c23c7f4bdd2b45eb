package tandemmq;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Durations, as they were measured. One thread adds them. */
final class Samples {
    private static final int AT_FIRST = 1 << 16;

    private long[] nanos = new long[AT_FIRST];
    private int count;

    void add(long took) {
        if (count == nanos.length) {
            nanos = Arrays.copyOf(nanos, 2 * count);
        }
        nanos[count++] = took;
    }

    int count() {
        return count;
    }

    void clear() {
        count = 0;
    }

    static long[] sorted(List<Samples> all) {
        List<long[]> parts = new ArrayList<>();
        all.forEach(s -> parts.add(Arrays.copyOf(s.nanos, s.count)));
        return parts.stream().flatMapToLong(Arrays::stream).sorted().toArray();
    }

    /** The value that this share of them does not exceed; 0 of none. */
    static long at(long[] sorted, double share) {
        return sorted.length == 0 ? 0 : sorted[(int) Math.min(sorted.length - 1, (long) (share * sorted.length))];
    }

    /** As calibrate.Summary is read. */
    static Map<String, Object> summary(List<Samples> all) {
        long[] sorted = sorted(all);
        Map<String, Object> m = new LinkedHashMap<>();
        m.put("samples", sorted.length);
        m.put("p50Nanos", at(sorted, 0.5));
        m.put("p99Nanos", at(sorted, 0.99));
        m.put("p999Nanos", at(sorted, 0.999));
        m.put("maxNanos", at(sorted, 1));
        return m;
    }
}
