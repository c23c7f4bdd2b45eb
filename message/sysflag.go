package message

// Bits of Record.SysFlag.
//
// Source: MessageSysFlag, 5.5.0.
const (
	FlagCompressed       int32 = 0x001 // body is compressed; FlagCompressionMask says how
	FlagMultiTags        int32 = 0x002 // producer's filter type is MULTI_TAG; the hash covers the whole TAGS value all the same
	FlagTransactionMask  int32 = 0x00C // one of the four Transaction values
	FlagBornHostV6       int32 = 0x010 // BornHost takes 20 bytes, not 8
	FlagStoreHostV6      int32 = 0x020 // StoreHost takes 20 bytes, not 8
	FlagNeedUnwrap       int32 = 0x040 // consumer has to split the body into messages
	FlagInnerBatch       int32 = 0x080 // record is an inner batch
	FlagCompressionMask  int32 = 0x700 // compression type, see Compression
	flagCompressionShift       = 8
)

// Values of SysFlag & FlagTransactionMask.
const (
	TransactionNone     int32 = 0x0
	TransactionPrepared int32 = 0x4 // half message: in the log, in no queue
	TransactionCommit   int32 = 0x8
	TransactionRollback int32 = 0xC // in the log, in no queue
)

// Compression is the algorithm of a compressed body, bits 8 to 10 of the SysFlag.
type Compression uint8

// The compression types. Zero stems from producers older than the bits and means zlib too.
const (
	CompressionLegacyZlib Compression = 0
	CompressionLZ4        Compression = 1
	CompressionZstd       Compression = 2
	CompressionZlib       Compression = 3
)

// CompressionOf returns the compression type of a sysFlag. It has a meaning only where FlagCompressed is set. False for
// the four values nobody assigned.
func CompressionOf(sysFlag int32) (c Compression, ok bool) {
	c = Compression(sysFlag & FlagCompressionMask >> flagCompressionShift)
	return c, c <= CompressionZlib
}

// Transaction returns the transaction bits of the record: one of the Transaction values.
func (r *Record) Transaction() int32 { return r.SysFlag & FlagTransactionMask }

// OwesUnit tells whether the record gets a unit in its consume queue: plain and committed messages do, prepared and rolled
// back ones do not.
//
// Source: CommitLogDispatcherBuildConsumeQueue.dispatch, 5.5.0.
func (r *Record) OwesUnit() bool {
	t := r.SysFlag & FlagTransactionMask
	return t == TransactionNone || t == TransactionCommit
}
