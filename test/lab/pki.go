// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// TLSFiles are the PEM files of one program: its certificate and key, and the
// certificate of the authority that it believes.
type TLSFiles struct {
	Cert, Key, CA string
}

// CA is a certificate authority.
type CA struct {
	Name string

	l    *Lab
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// NewCA makes an authority with a new key.
func (l *Lab) NewCA(name string) *CA {
	l.t.Helper()
	ca := &CA{Name: name, l: l}
	template := certificate(name)
	template.IsCA = true
	template.KeyUsage = x509.KeyUsageCertSign
	var err error
	if ca.cert, ca.key, err = sign(template, nil); err != nil {
		l.t.Fatalf("certificate of %s: %v", name, err)
	}
	ca.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})
	return ca
}

// Issue writes the files of a program of that name into the lab's folder, over
// those of the same name, with a new key; the program is to believe in ca. What
// change does to the certificate is signed too; without it, it is as ovs-pki(8)
// makes them, without a host name.
func (ca *CA) Issue(name string, change ...func(*x509.Certificate)) TLSFiles {
	ca.l.t.Helper()
	template := certificate(name)
	for _, c := range change {
		c(template)
	}
	cert, key, err := sign(template, ca)
	if err != nil {
		ca.l.t.Fatalf("certificate of %s: %v", name, err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		ca.l.t.Fatalf("key of %s: %v", name, err)
	}
	return TLSFiles{
		Cert: ca.l.replaceFile(name+"-cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})),
		Key:  ca.l.replaceFile(name+"-key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})),
		CA:   ca.Trust(name),
	}
}

// Trust has the program of that name believe in ca, whoever issued its own
// certificate.
func (ca *CA) Trust(name string) (file string) {
	ca.l.t.Helper()
	return ca.l.replaceFile(name+"-ca.pem", ca.pem)
}

// replaceFile writes a file by rename, so that a reader never sees half of it.
func (l *Lab) replaceFile(name string, content []byte) string {
	l.t.Helper()
	path := filepath.Join(l.Dir, name)
	err := os.WriteFile(path+".new", content, 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		l.t.Fatalf("lab: %v", err)
	}
	return path
}

func certificate(name string) *x509.Certificate {
	return &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		BasicConstraintsValid: true,
	}
}

// sign makes a certificate with a key, signed by ca or, if that is nil, by itself.
func sign(template *x509.Certificate, ca *CA) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		return nil, nil, err
	}
	parent, signer := template, key
	if ca != nil {
		parent, signer = ca.cert, ca.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

// ServeTLS restarts a central database, "nb" or "sb", so that it listens with TLS
// too, on a port of 127.0.0.1 in the first node.
func (l *Lab) ServeTLS(name string, port int, f TLSFiles) {
	l.t.Helper()
	act(l.t, l.daemons, name, func(d *daemon, ctx context.Context) error { return d.serveTLS(ctx, port, f) })
}

// ServeTLS is [Lab.ServeTLS] for the local database of the node.
func (n *Node) ServeTLS(port int, f TLSFiles) {
	n.l.t.Helper()
	act(n.l.t, n.daemons, "ovsdb-server", func(d *daemon, ctx context.Context) error { return d.serveTLS(ctx, port, f) })
}

func (d *daemon) serveTLS(ctx context.Context, port int, f TLSFiles) error {
	tls := []string{fmt.Sprintf("--remote=pssl:%d:127.0.0.1", port), "--private-key=" + f.Key, "--certificate=" + f.Cert, "--ca-cert=" + f.CA}
	d.argv = slices.DeleteFunc(d.argv, func(arg string) bool {
		return slices.ContainsFunc(tls, func(new string) bool {
			option, _, _ := strings.Cut(new, ":")
			option, _, _ = strings.Cut(option, "/")
			return strings.HasPrefix(arg, option)
		})
	})
	d.argv = append(d.argv, tls...)
	return d.restart(ctx)
}
