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

// TLSFiles names PEM files, all needed: a certificate (chain), its key, and CAs of the peer. Open vSwitch
// verifies in both directions.
type TLSFiles struct {
	Cert, Key, CA string
	// ServerName is the server's name and SNI (RFC 6066, section 3). If empty, no name is compared, and SNI
	// is the endpoint's host name, as in Open vSwitch.
	ServerName string
}

// Config returns a configuration for a server or a client. Before a handshake it reads changed files again;
// the last good set stays while they can't be read, as during a renewal.
//
// The peer's chain must end in CA. Only ServerName is compared: certificates of ovs-pki(8) have no host name.
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
		// verify checks instead: Go demands a client's extended key usage.
		cfg.ClientAuth = tls.RequireAnyClientCert
	} else {
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return s.current().cert, nil }
		// This turns off only Go's own verification, which compares names.
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

// For returns the Config for an endpoint, nil without TLS.
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

// contents is one consistent reading of the files.
type contents struct {
	cert   *tls.Certificate
	roots  *x509.CertPool
	stamps [3]stamp // in the order of TLSFiles
}

// stamp changes when a file is written or replaced.
type stamp struct {
	inode    uint64
	size     int64 // bytes
	modified int64 // Unix time in nanoseconds
}

// fileStore has the last good contents.
type fileStore struct {
	files TLSFiles
	mu    sync.Mutex
	last  contents // guarded by mu
}

// current reads changed files again.
func (s *fileStore) current() contents {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, err := s.files.stamps(); err == nil && now != s.last.stamps {
		// The next handshake tries again.
		_ = s.loadLocked()
	}
	return s.last
}

func (s *fileStore) load() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loadLocked()
}

// s.mu is held.
func (s *fileStore) loadLocked() error {
	// Stamps come first, so a later change causes another read.
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

// verify checks the chain, not the name. It fails without a certificate.
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
