// SPDX-License-Identifier: Apache-2.0

// Package endpointtest makes certificates for tests.
package endpointtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/endpoint"
)

// CA is a certificate authority.
type CA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// NewCA makes one with a new key.
func NewCA(t testing.TB) *CA {
	t.Helper()
	ca := &CA{}
	ca.cert, ca.key, ca.pem, _ = issue(t, "CA", nil)
	return ca
}

// Issue writes the files of a new certificate to dir, over earlier ones. Like
// those of ovs-pki(8) it has no extended key usage, nor a host name unless some are given.
func (ca *CA) Issue(t testing.TB, dir, name string, hosts ...string) endpoint.TLSFiles {
	t.Helper()
	_, _, cert, key := issue(t, name, ca, hosts...)
	files := endpoint.TLSFiles{
		Cert: filepath.Join(dir, "cert.pem"),
		Key:  filepath.Join(dir, "key.pem"),
		CA:   filepath.Join(dir, "ca.pem"),
	}
	for name, text := range map[string][]byte{files.Cert: cert, files.Key: key, files.CA: ca.pem} {
		// By rename, so that a reader never sees half of it.
		if err := os.WriteFile(name+".new", text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func issue(t testing.TB, name string, by *CA, hosts ...string) (*x509.Certificate, *ecdsa.PrivateKey, []byte, []byte) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	check(err)
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		BasicConstraintsValid: true,
		DNSNames:              hosts,
	}
	parent, signer := template, key
	if by == nil {
		template.IsCA = true
		template.KeyUsage = x509.KeyUsageCertSign
	} else {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	check(err)
	cert, err := x509.ParseCertificate(der)
	check(err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	check(err)
	return cert, key,
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}
