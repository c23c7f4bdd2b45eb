package remoting

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"sync"
	"time"
)

// TLSMode says which connections a server takes. The values are RocketMQ's, of tls.server.mode.
type TLSMode string

// The modes.
const (
	TLSDisabled   TLSMode = "disabled"   // plaintext alone
	TLSPermissive TLSMode = "permissive" // both
	TLSEnforcing  TLSMode = "enforcing"  // TLS alone
)

// TLSOptions of a server.
type TLSOptions struct {
	Mode TLSMode
	// CertFile and KeyFile are PEM files. They are read anew when either changes; until both are good the old pair serves. Both empty:
	// a self-signed pair is made, which only clients that verify nothing take (tls.test.mode.enable).
	CertFile, KeyFile string
}

func (o *TLSOptions) validate() error {
	switch o.Mode {
	case TLSDisabled, TLSPermissive, TLSEnforcing:
	default:
		return fmt.Errorf("TLS mode is %q, must be disabled, permissive or enforcing", o.Mode)
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		return errors.New("TLS: of CertFile and KeyFile one is given, must be both or none")
	}
	return nil
}

func (o *TLSOptions) config(log *slog.Logger) (*tls.Config, error) {
	if o.CertFile == "" {
		cert, err := SelfSigned()
		if err != nil {
			return nil, err
		}
		return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, nil
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	files := &certFiles{cert: o.CertFile, key: o.KeyFile, log: log}
	if _, err := files.get(nil); err != nil {
		return nil, err
	}
	return &tls.Config{GetCertificate: files.get, MinVersion: tls.VersionTLS12}, nil
}

// certFiles is a pair of files as a certificate. Each handshake looks whether they have changed.
type certFiles struct {
	cert, key string
	log       *slog.Logger

	mu struct {
		sync.Mutex
		loaded *tls.Certificate
		stamp  [2]fileStamp // of what was last tried
	}
}

type fileStamp struct {
	modified time.Time
	size     int64
}

func stampOf(path string) fileStamp {
	info, err := os.Stat(path)
	if err != nil {
		return fileStamp{}
	}
	return fileStamp{info.ModTime(), info.Size()}
}

func (f *certFiles) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	stamp := [2]fileStamp{stampOf(f.cert), stampOf(f.key)}
	if f.mu.loaded != nil && stamp == f.mu.stamp {
		return f.mu.loaded, nil
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	switch {
	case err == nil:
		f.mu.loaded = &pair
	case f.mu.loaded == nil:
		return nil, fmt.Errorf("load certificate %s and key %s: %w", f.cert, f.key, err)
	default:
		f.log.Warn("the changed certificate cannot be loaded, the old one serves on", slog.String("file", f.cert), logErr(err))
	}
	f.mu.stamp = stamp
	return f.mu.loaded, nil
}

// SelfSigned makes a key pair for localhost that nobody has signed, for tests and for TLS without a configured pair.
func SelfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a serial number: %w", err)
	}
	now := time.Now()
	template := x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "localhost", Organization: []string{"TandemMQ self-signed"}},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.AddDate(10, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
