package compare

import "github.com/tandemq/tandemmq/bench/calibrate"

// ratio is a limit that this project has set itself, and how a report is held against it.
type ratio struct {
	name  string
	op    string
	limit float64
	full  bool // the quick profile's sizes are too small for it: what begins and ends is most of what they measure
	value func(r *Report) (float64, bool)
}

// median is that of a figure of a row.
func median(scenario, engine, figure string) func(r *Report) (float64, bool) {
	return func(r *Report) (float64, bool) {
		row := r.Row(scenario, engine)
		if row == nil {
			return 0, false
		}
		v, ok := row.Spread(figure)
		return v[1], ok
	}
}

// limitOf is the median of a limit of the machine.
func limitOf(name string) func(r *Report) (float64, bool) {
	return func(r *Report) (float64, bool) {
		for _, l := range r.Limits {
			if l.Name == name {
				v, ok := calibrate.Spread(l.Values)
				return v[1], ok
			}
		}
		return 0, false
	}
}

// by is a by b, times a factor.
func by(a, b func(r *Report) (float64, bool), factor float64) func(r *Report) (float64, bool) {
	return func(r *Report) (float64, bool) {
		x, ok1 := a(r)
		y, ok2 := b(r)
		if !ok1 || !ok2 || y == 0 {
			return 0, false
		}
		return factor * x / y, true
	}
}

// ofJava is a figure of an engine by that of RocketMQ with its queues kept alike.
func ofJava(scenario, engine, figure string) func(r *Report) (float64, bool) {
	java := Java
	if engine == Rocks {
		java = JavaRocks
	}
	return by(median(scenario, engine, figure), median(scenario, java, figure), 1)
}

// ratios are the limits. docs/benchmarks.md says of each where it comes from; here the sizes are other ones than there.
func ratios() (all []ratio) {
	least := func(name string, limit float64, v func(r *Report) (float64, bool)) {
		all = append(all, ratio{name: name, op: ">=", limit: limit, value: v})
	}
	most := func(name string, limit float64, v func(r *Report) (float64, bool)) {
		all = append(all, ratio{name: name, op: "<=", limit: limit, value: v})
	}
	for _, e := range []string{File, Rocks} {
		most("get_"+e+"_of_java", 0.5, ofJava("read/get", e, "getP50Micros"))
		most("reopen_"+e+"_of_java", 0.2, ofJava("open/clean", e, "readyMillis"))
	}
	least("pull_file_of_java", 3, ofJava("read/catch-up", File, "pullPerSecond"))
	least("pull_rocks_of_java", 10, ofJava("read/catch-up", Rocks, "pullPerSecond"))
	most("pull_file_allocs", 0.001, median("read/catch-up", File, "pullAllocs"))
	most("query_of_java", 0.5, ofJava("read/key", File, "queryP50Micros"))
	most("time_file_of_java", 0.5, ofJava("read/time", File, "timeP50Micros"))
	most("time_rocks_of_java", 0.25, ofJava("read/time", Rocks, "timeP50Micros"))
	both := len(all)
	for _, e := range []string{File, Rocks} {
		least("put_async_"+e+"_of_java", 8, ofJava("put/async/producers-1", e, "putPerSecond"))
		least("put_sync_64_"+e+"_of_java", 5, ofJava("put/sync/producers-64", e, "putPerSecond"))
		least("rebuild_"+e+"_of_java", 5, by(median("open/rebuild", map[string]string{File: Java, Rocks: JavaRocks}[e], "readyMillis"), median("open/rebuild", e, "readyMillis"), 1))
		least("built_many_"+e+"_of_java", map[string]float64{File: 3, Rocks: 10}[e], ofJava("queues/put-10000", e, "builtPerSecond"))
	}
	least("put_8_producers_of_1", 1, by(median("put/async/producers-8", File, "putPerSecond"), median("put/async/producers-1", File, "putPerSecond"), 1))
	most("put_p99_us", 20, median("put/async/producers-1", File, "putP99Micros"))
	most("readable_combine_p99_us", 5000, median("latency/readable", Combine, "readableP99Micros"))
	least("dispatch_file_index_of_copy", 0.2, by(median("dispatch/catch-up", File, "buildPerSecond"), limitOf(LimitCopyWarm), calibrate.RecordBytes))
	least("scan_of_read", 0.8, by(median("dispatch/verify-log", File, "verifyBytesPerSecond"), limitOf(LimitRead), 1))
	least("backfill_units_per_second", 1_800_000, median("migrate/backfill", Migration, "backfillUnitsPerSecond"))
	least("verify_units_per_second", 3_000_000, median("migrate/verify", Migration, "verifyUnitsPerSecond"))
	least("verify_records_units_per_second", 3_000_000, median("migrate/verify-records", Migration, "recordsUnitsPerSecond"))
	for i := both; i < len(all); i++ {
		all[i].full = true
	}
	return all
}

// Judge sets the limits that the report says something of.
func (r *Report) Judge() {
	r.Ratios = nil
	for _, x := range ratios() {
		v, ok := x.value(r)
		if !ok || x.full && r.Profile == Quick {
			continue
		}
		kept := v >= x.limit
		if x.op == "<=" {
			kept = v <= x.limit
		}
		r.Ratios = append(r.Ratios, Ratio{Name: x.name, Op: x.op, Limit: x.limit, Value: v, Kept: kept})
	}
}
