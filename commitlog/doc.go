// Package commitlog reads and writes the CommitLog, the one file run that holds every message and from which all else can be rebuilt.
//
//	<dir>/00000000000000000000   record record record ... filler
//	<dir>/00000000000001073741824   record record ... zeros           (each file exactly FileSize bytes)
//
// A record is told by its size, its magic, lengths that add up, and a PhyOffset that equals the place where it stands; the
// last keeps the records inside another record's body, and bytes left over from a truncated log, from being taken for
// records (W5, W6, W20, see docs/format/known-faults.md). No record crosses the end of a file: where the next one would not leave 8
// bytes behind it, a filler announces all bytes to the end of the file and the record goes to the next one.
//
// # Basics
//
//	Open            reads the directory; files are mapped when they are used
//	Log.Scanner     every record in order, from a record boundary to the end; tells how the log ends
//	Log.End         how the log ends, without scanning all of it
//	Log.Read        one record by its physical offset, everything verified
//	Log.Chunk       raw bytes, for who follows the log
//
//	OpenWriter      finds the end, cuts a torn tail, goes on from there
//	Writer.Reserve  the next bytes; Writer.Publish fills them and makes them part of the log; Writer.AwaitFlush waits for the disk,
//	                and Writer.AwaitFlushFunc is told
//	Writer.AwaitConfirm waits for something new to read
//
// # How a log ends
//
// Three answers, never two. EndClean: from the end of the last record on there are only zeros, in this file and in those after it
// (files are made ahead). EndTorn: there are other bytes, and nothing behind them is a record: the last write was cut off.
// EndCorrupt: there are other bytes, and valid records follow: cutting there would lose them. Upstream knows only the first
// two, and unlinks every file behind one flipped bit (W7).
//
// # Caveats
//
// A Log that Open returns is read-only, and its list of files is that of the moment. Of a live log it sees a torn end that heals. The Log of a Writer
// stops at what is committed.
//
// Slices of records point into mapped files. Reading them faults when someone cuts the file meanwhile; Scanner and Read are safe
// from that themselves, for the slices they hand out see GuardFault.
//
// # Goroutines
//
// A Log starts none and may be used by many, a Scanner by one. A Writer has those that its type lists, and may be used by many.
package commitlog
