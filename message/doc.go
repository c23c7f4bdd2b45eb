// Package message is the codec of the CommitLog: the record a message becomes on disk, the filler at the end of a log
// file, the properties inside a record, and what dispatch reads off them. It does no I/O, keeps no state and copies
// nothing: a decoded Record is a set of numbers and of slices into the caller's bytes.
//
// # Basics
//
//	var r message.Record
//	switch err := r.Decode(b, true); {
//	case err == nil:                            // r.TotalSize bytes of b are one record
//	case errors.Is(err, message.ErrBlank):      // the file ends here; BlankSize tells how long the filler is
//	case errors.Is(err, message.ErrEnd):        // nothing was ever written here
//	case errors.Is(err, message.ErrTorn):       // a write that did not get to its end
//	case errors.Is(err, message.ErrCorrupt):    // bytes that cannot be a record
//	}
//
// The drawing of a record stands above Record, the table of failures above Decode. The way in, limits first:
//
//	scan, err := message.ScanProperties(m.Properties) // form, and which reserved names occur
//	size, err := m.EncodedSize()                      // every limit of the format, before anything is taken
//	err = m.PutTo(dst[:size])                         // in place, no allocation
//
// # Caveats
//
// Structure and meaning are separate. Whether bytes are a record is decided by framing and checksum alone; no property,
// topic or timestamp can make a well-framed record unreadable. Text in a property that should be a number and is not is
// reported beside the result (DispatchRequest.BadProperty, the ok of MultiDispatch), never as a decode error: a producer
// must not be able to damage a log by what it writes into a property.
//
// Whether the record belongs where it lies (PhyOffset equals its position) is for the CommitLog to check: the codec does
// not know the position.
//
// Slices of a Record alias the input and live as long as it does.
//
// # Goroutines
//
// The package starts none. Functions are safe for concurrent use; a Record may be read by many goroutines while none
// decodes into it.
package message
