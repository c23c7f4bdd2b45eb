package remoting

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Class is a kind of requests that share a limit and a way to run.
type Class struct {
	Name string
	// Codes are those of the class. None: the class takes all codes that no other has; there is exactly one such class.
	Codes []int32
	// Workers is how many handlers of the class run at once, on goroutines of their own. Zero: the handler runs inline, on the goroutine that
	// reads the connection; it must not wait for anything but short locks.
	Workers int
	// MaxInFlight is how many requests of the class may be unanswered at once, waiting ones included and held ones (Conn.Hold) not. Over it the answer
	// is 2 with the remark [OVERLOAD]. At least 1.
	MaxInFlight int
	// MaxWait is how long a request may wait for a worker; one that has waited longer is answered 2 with the remark
	// [TIMEOUT_CLEAN_QUEUE]. Zero: as long as it takes.
	MaxWait time.Duration
	// RefuseOverBudget answers 2 with the remark [OVERLOAD] while the answers that wait to be written exceed Limits.MaxResponseBytes, or those of
	// the request's connection Limits.MaxConnResponseBytes. It is for classes with large answers.
	RefuseOverBudget bool
}

// Limits are what Server and Client have in common. Zero is refused in all of them.
type Limits struct {
	// MaxFrameBytes is the most bytes of a frame, its length field included. A longer one that comes in closes its connection; an
	// answer that would be longer becomes code 1. Default 16 MiB, at least 1 KiB.
	MaxFrameBytes int
	// IdleTimeout closes a connection on which nothing was read or written for so long. Default 120 s.
	IdleTimeout time.Duration
	// FrameTimeout closes a connection whose frame has begun and not ended for so long. Default 120 s.
	FrameTimeout time.Duration
	// MaxRequestBytes bounds the memory of frames of more than 64 KiB, over all connections; a connection waits with reading until there is
	// room. Default 256 MiB.
	MaxRequestBytes int64
	// MaxResponseBytes is how many bytes of answers may wait to be written, over all connections, before classes with RefuseOverBudget are
	// refused. Default 256 MiB.
	MaxResponseBytes int64
	// MaxConnResponseBytes is how many bytes of answers may wait on one connection before it is not read from any more, and classes with
	// RefuseOverBudget are refused. Default 32 MiB, two of the largest answers.
	MaxConnResponseBytes int64
	// MaxCalls is how many calls to the peer of one connection may wait for their answers. Default 65,536.
	MaxCalls int
}

// DefaultLimits gives RocketMQ's limits where it has such.
func DefaultLimits() Limits {
	return Limits{
		MaxFrameBytes:        DefaultMaxFrameBytes,
		IdleTimeout:          120 * time.Second,
		FrameTimeout:         120 * time.Second,
		MaxRequestBytes:      256 << 20,
		MaxResponseBytes:     256 << 20,
		MaxConnResponseBytes: 32 << 20,
		MaxCalls:             1 << 16,
	}
}

func (l *Limits) validate() error {
	var errs []error
	check := func(ok bool, name, bound string, value any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s is %v, must be %s", name, value, bound))
		}
	}
	check(l.MaxFrameBytes >= 1<<10 && l.MaxFrameBytes <= 1<<30, "MaxFrameBytes", "1 KiB to 1 GiB", l.MaxFrameBytes)
	check(l.IdleTimeout > 0, "IdleTimeout", "positive", l.IdleTimeout)
	check(l.FrameTimeout > 0, "FrameTimeout", "positive", l.FrameTimeout)
	check(l.MaxRequestBytes > 0, "MaxRequestBytes", "positive", l.MaxRequestBytes)
	check(l.MaxResponseBytes > 0, "MaxResponseBytes", "positive", l.MaxResponseBytes)
	check(l.MaxConnResponseBytes > 0, "MaxConnResponseBytes", "positive", l.MaxConnResponseBytes)
	check(l.MaxCalls > 0, "MaxCalls", "positive", l.MaxCalls)
	return errors.Join(errs...)
}

// ServerOptions of a Server. Take them from DefaultServerOptions.
type ServerOptions struct {
	Limits
	// MaxConnections is how many connections may be open; more are closed as they come. Default 20,000.
	MaxConnections int
	// Classes sort the requests. Default: DefaultClasses.
	Classes []Class
	// TLS says whether connections may or must be encrypted. Default: disabled.
	TLS TLSOptions
	// OnClose is called once for each connection after its end, when no call to its peer waits any more; requests of it may still be running. Nil:
	// nothing.
	OnClose func(c *Conn, cause error)
	// Language is what answers announce. Default: Java, as all peers know that name.
	Language Language
	// Logger is told of broken connections (debug), refused ones and panics. Nil: discard.
	Logger *slog.Logger
}

// DefaultServerOptions gives new options.
func DefaultServerOptions() ServerOptions {
	return ServerOptions{Limits: DefaultLimits(), MaxConnections: 20_000, Classes: DefaultClasses(), TLS: TLSOptions{Mode: TLSDisabled}, Language: Java}
}

// DefaultClasses has sends and the short calls of clients run inline, and pulls, queries and administration on workers.
func DefaultClasses() []Class {
	return []Class{
		{
			Name: "send", MaxInFlight: 10_000,
			Codes: []int32{SendMessage, SendMessageV2, SendBatchMessage, SendReplyMessage, SendReplyMessageV2, ConsumerSendMsgBack, EndTransaction},
		},
		{Name: "pull", Codes: []int32{PullMessage, LitePullMessage}, Workers: 16, MaxInFlight: 100_000, MaxWait: 5 * time.Second, RefuseOverBudget: true},
		{
			Name: "client", MaxInFlight: 50_000,
			Codes: []int32{
				Heartbeat, UnregisterClient, GetConsumerListByGroup, QueryConsumerOffset, UpdateConsumerOffset, LockBatchMQ, UnlockBatchMQ,
				CheckClientConfig, GetMaxOffset, GetMinOffset,
			},
		},
		{Name: "admin", Workers: 8, MaxInFlight: 5_000, MaxWait: 5 * time.Second, RefuseOverBudget: true},
	}
}

// Validate reports every fault of the options at once.
func (o *ServerOptions) Validate() error {
	errs := []error{o.validate(), o.TLS.validate()}
	if o.MaxConnections < 1 {
		errs = append(errs, fmt.Errorf("MaxConnections is %d, must be positive", o.MaxConnections))
	}
	_, err := newClassTable(o.Classes)
	return errors.Join(append(errs, err)...)
}

// ClientOptions of a Client. Take them from DefaultClientOptions.
type ClientOptions struct {
	Limits
	// DialTimeout bounds connecting, a TLS handshake included. Default 3 s.
	DialTimeout time.Duration
	// TLS encrypts all connections. Nil: none.
	TLS *tls.Config
	// Handler serves requests that a peer sends on our connection, on 8 goroutines. Nil: they are answered with code 3.
	Handler Handler
	// Sign may add fields to each request before it is written, see Credentials.Sign. Nil: nothing.
	Sign func(req *Command)
	// OnClose is called once for each connection after its end. Nil: nothing.
	OnClose func(c *Conn, cause error)
	// Language and Version are what requests announce. Default: Go and CurrentVersion.
	Language Language
	Version  int32
	// BinaryHeaders sends requests with binary headers. Default: JSON.
	BinaryHeaders bool
	// Logger is told of broken connections (debug) and panics. Nil: discard.
	Logger *slog.Logger
}

// DefaultClientOptions gives new options.
func DefaultClientOptions() ClientOptions {
	return ClientOptions{Limits: DefaultLimits(), DialTimeout: 3 * time.Second, Language: Go, Version: CurrentVersion}
}

// Validate reports every fault of the options at once.
func (o *ClientOptions) Validate() error {
	errs := []error{o.validate()}
	if o.DialTimeout <= 0 {
		errs = append(errs, fmt.Errorf("DialTimeout is %v, must be positive", o.DialTimeout))
	}
	return errors.Join(errs...)
}
