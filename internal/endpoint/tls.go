// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// TLSFiles names PEM files: a certificate (chain), its private key, and the CA
// certificates that the peer's chain must end in. All three are needed, since
// Open vSwitch programs verify each other in both directions.
type TLSFiles struct {
	Cert, Key, CA string
	// ServerName is the host name that a server's certificate must be valid for, and that the handshake names
	// (SNI, RFC 6066, section 3). If it is empty, no name is compared, and the handshake names the host of
	// the endpoint unless that is an address, as Open vSwitch programs do.
	ServerName string
}

// Config returns a configuration for a server or for a client. The files are read now: the
// error says which one can't be. They are read again before a handshake if they have
// changed on disk. While a changed set can't be read, as during a renewal, the last good
// one stays in use.
//
// The peer must present a chain that ends in CA. Its name is compared with ServerName only:
// certificates of Open vSwitch (ovs-pki(8)) carry no host name.
func (f TLSFiles) Config(server bool) (*tls.Config, error) {
	s := &fileStore{files: f}
	if err := s.load(); err != nil {
		return nil, err
	}
	cfg := &tls.Config{
		MinVersion:       tls.VersionTLS12,
		VerifyConnection: s.verify,
	}
	if server {
		cfg.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.current().cert, nil }
		// verify checks the chain instead: Go's own verification demands the extended
		// key usage of a TLS client.
		cfg.ClientAuth = tls.RequireAnyClientCert
	} else {
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return s.current().cert, nil }
		// This turns off Go's own verification only, which compares names.
		cfg.InsecureSkipVerify = true
		cfg.ServerName = f.ServerName
		cfg.VerifyConnection = func(cs tls.ConnectionState) error {
			if err := s.verify(cs); err != nil || f.ServerName == "" {
				return err
			}
			if err := cs.PeerCertificates[0].VerifyHostname(f.ServerName); err != nil {
				return fmt.Errorf("tls_servername %q: %w", f.ServerName, err)
			}
			return nil
		}
	}
	return cfg, nil
}

// For returns the configuration for an endpoint, nil for an endpoint without TLS. Its errors are the errors
// of Config.
func (f TLSFiles) For(e Endpoint) (*tls.Config, error) {
	if !e.TLS {
		return nil, nil
	}
	config, err := f.Config(e.Listen)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	return config, nil
}

// contents is one consistent reading of the three files.
type contents struct {
	cert   *tls.Certificate
	roots  *x509.CertPool
	stamps [3]stamp // of the files, in the order of TLSFiles
}

// stamp is another one if a file was written or replaced.
type stamp struct {
	inode    uint64
	size     int64 // bytes
	modified int64 // Unix time in nanoseconds
}

// fileStore has the last good contents of the files.
type fileStore struct {
	files TLSFiles
	mu    sync.Mutex
	last  contents // guarded by mu
}

// current returns the contents, after it has read the files again if they have changed.
func (s *fileStore) current() contents {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, err := s.files.stamps(); err == nil && now != s.last.stamps {
		// After an error the stamps are still the old ones: the next handshake tries again.
		_ = s.loadLocked()
	}
	return s.last
}

func (s *fileStore) load() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loadLocked()
}

// loadLocked reads the files. s.mu is held.
func (s *fileStore) loadLocked() error {
	// The stamps come first: a file that changes meanwhile is read once more.
	stamps, err := s.files.stamps()
	if err != nil {
		return err
	}
	cert, err := tls.LoadX509KeyPair(s.files.Cert, s.files.Key)
	if err != nil {
		return fmt.Errorf("certificate %q and key %q: %w", s.files.Cert, s.files.Key, err)
	}
	pem, err := os.ReadFile(s.files.CA)
	if err != nil {
		return fmt.Errorf("CA: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return fmt.Errorf("CA %q: expected PEM certificates, found none", s.files.CA)
	}
	s.last = contents{cert: &cert, roots: roots, stamps: stamps}
	return nil
}

func (f TLSFiles) stamps() (all [3]stamp, err error) {
	for i, name := range [...]string{f.Cert, f.Key, f.CA} {
		if name == "" {
			return all, errNoTLS
		}
		info, err := os.Stat(name)
		if err != nil {
			return all, err
		}
		all[i] = stamp{size: info.Size(), modified: info.ModTime().UnixNano()}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			all[i].inode = st.Ino
		}
	}
	return all, nil
}

// verify implements tls.Config.VerifyConnection: it checks the chain and not the name. Without
// an error there is a certificate.
func (s *fileStore) verify(cs tls.ConnectionState) error {
	if len(cs.PeerCertificates) == 0 {
		return errors.New("tls: the peer sent no certificate")
	}
	intermediates := x509.NewCertPool()
	for _, c := range cs.PeerCertificates[1:] {
		intermediates.AddCert(c)
	}
	_, err := cs.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots:         s.current().roots,
		Intermediates: intermediates,
		// One certificate serves both roles in Open vSwitch.
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	return err
}
