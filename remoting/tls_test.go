package remoting

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tandemq/tandemmq/internal/logtest"
)

// writePair makes a self-signed pair in files and gives a pool that trusts it.
func writePair(t *testing.T, certFile, keyFile string) *x509.CertPool {
	t.Helper()
	pair, err := SelfSigned()
	require.NoError(t, err)
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600))
	pool := x509.NewCertPool()
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	require.NoError(t, err)
	pool.AddCert(cert)
	return pool
}

func TestTLSModes(t *testing.T) {
	for _, tt := range []struct {
		mode           TLSMode
		plain, secured bool
	}{
		{TLSDisabled, true, false},
		{TLSPermissive, true, true},
		{TLSEnforcing, false, true},
	} {
		t.Run(string(tt.mode), func(t *testing.T) {
			_, addr := serve(t, echo, func(o *ServerOptions) { o.TLS.Mode = tt.mode })
			for _, secured := range []bool{false, true} {
				c := client(t, func(o *ClientOptions) {
					if secured {
						o.TLS = &tls.Config{InsecureSkipVerify: true}
					}
				})
				body := pattern(1, 300_000)
				resp, err := c.Invoke(within(t), addr, &Command{Code: 1, Body: body})
				if taken := secured && tt.secured || !secured && tt.plain; !taken {
					require.Error(t, err)
					continue
				}
				require.NoError(t, err)
				require.True(t, bytes.Equal(body, resp.Body))
			}
		})
	}
	t.Run("a byte at a time", func(t *testing.T) {
		_, addr := serve(t, echo, func(o *ServerOptions) { o.TLS.Mode = TLSPermissive })
		for _, secured := range []bool{false, true} {
			c := dial(t, addr)
			slow := &rawConn{&byteConn{c.Conn}, t, c.r}
			if secured {
				slow.overTLS()
			}
			slow.request(1, 3, func(req *Command) { req.Body = []byte("body") })
			require.Equal(t, "body", string(slow.receive().Body))
		}
	})
}

func TestTLSFiles(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	options := func(o *ServerOptions) {
		o.TLS = TLSOptions{Mode: TLSEnforcing, CertFile: certFile, KeyFile: keyFile}
	}
	o := DefaultServerOptions()
	options(&o)
	_, err := NewServer(echo, o)
	require.ErrorContains(t, err, certFile)
	o.TLS.KeyFile = ""
	_, err = NewServer(echo, o)
	require.ErrorContains(t, err, "must be both or none")

	first := writePair(t, certFile, keyFile)
	var logged logtest.Log
	_, addr := serve(t, echo, options, func(o *ServerOptions) { o.Logger = logged.Logger() })
	works := func(pool *x509.CertPool) error {
		c := client(t, func(o *ClientOptions) { o.TLS = &tls.Config{RootCAs: pool} })
		_, err := c.Invoke(within(t), addr, &Command{Code: 1})
		return err
	}
	require.NoError(t, works(first))
	second := writePair(t, certFile, keyFile)
	require.NoError(t, os.Chtimes(certFile, time.Now(), time.Now().Add(time.Hour))) // whatever the clock's steps are
	require.NoError(t, works(second), "changed files are read anew")
	require.ErrorContains(t, works(first), "certificate")
	require.NoError(t, os.WriteFile(keyFile, []byte("nonsense"), 0o600))
	require.NoError(t, works(second), "while the files are no pair, the old one serves on")
	require.Contains(t, logged.String(), "cannot be loaded")
	third := writePair(t, certFile, keyFile)
	require.NoError(t, os.Chtimes(certFile, time.Now(), time.Now().Add(2*time.Hour)))
	require.NoError(t, works(third))
}

// A handshake that is none ends its connection, and no other.
func TestTLSGarbage(t *testing.T) {
	causes := make(chan error, 10)
	_, addr := serve(t, echo, func(o *ServerOptions) {
		o.TLS.Mode = TLSPermissive
		o.OnClose = func(_ *Conn, cause error) { causes <- cause }
	})
	c := dial(t, addr)
	c.send(append([]byte{0x16, 3, 1, 0, 200}, make([]byte, 300)...)...)
	cause := <-causes
	require.ErrorContains(t, cause, "TLS handshake")
	other := dial(t, addr)
	other.request(1, 2)
	require.Equal(t, int32(2), other.receive().Opaque, fmt.Sprint(cause))
}
