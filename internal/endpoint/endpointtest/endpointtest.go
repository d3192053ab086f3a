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
	"time"

	"github.com/puntdns/puntdns/internal/endpoint"
)

// T is the part of testing.TB that certificates need.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
}

// CA is a certificate authority.
type CA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// NewCA returns a CA with a new key.
func NewCA(t T) *CA {
	t.Helper()
	ca := &CA{}
	ca.cert, ca.key, ca.pem, _ = issue(t, "CA "+rand.Text(), nil) // OpenSSL distinguishes authorities by name
	return ca
}

// Issue writes a new certificate and its CA to dir. Like ovs-pki(8)'s it has no extended key usage or host
// name, unless change adds some.
func (ca *CA) Issue(t T, dir, name string, change ...func(*x509.Certificate)) endpoint.TLSFiles {
	t.Helper()
	_, _, cert, key := issue(t, name, ca, change...)
	return endpoint.TLSFiles{
		Cert: replace(t, dir, "cert.pem", cert),
		Key:  replace(t, dir, "key.pem", key),
		CA:   ca.Trust(t, dir),
	}
}

// Trust writes the CA's certificate to dir.
func (ca *CA) Trust(t T, dir string) (file string) {
	t.Helper()
	return replace(t, dir, "ca.pem", ca.pem)
}

// replace renames, so that readers see no partial file.
func replace(t T, dir, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	err := os.WriteFile(path+".new", text, 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		t.Fatalf("certificates: %v", err)
	}
	return path
}

func issue(t T, name string, by *CA, change ...func(*x509.Certificate)) (*x509.Certificate, *ecdsa.PrivateKey, []byte, []byte) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("certificate of %s: %v", name, err)
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
	}
	for _, c := range change {
		c(template)
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
