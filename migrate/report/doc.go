// Package report writes what there is to be told of a migration, a migrate.Overview, as one HTML page that loads nothing: how far it went when, units per queue, disk and latency of puts before and after, findings,
// who did what, and what was certified.
package report
