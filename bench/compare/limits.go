package compare

// Names of limits.
const (
	LimitCopyWarm    = "copyWarm"    // B/s
	LimitCopyCold    = "copyCold"    // B/s
	LimitCRC         = "crc32"       // B/s
	LimitRead        = "read"        // B/s
	LimitWriteBack   = "writeBack"   // B/s
	LimitSync        = "fdatasync"   // ns
	LimitWritev      = "writev"      // B/s
	LimitSendfile    = "sendfile"    // B/s
	LimitRandomWrite = "randomWrite" // /s
	LimitRandomRead  = "randomRead"  // /s
	LimitBusySync    = "busyFdatasync"
	LimitCgo         = "cgoCall"
	LimitRocksWrite  = "rocksWrite"   // /s
	LimitRocksWalk   = "rocksIterate" // /s
	LimitRocksGet    = "rocksGet"     // /s
)
