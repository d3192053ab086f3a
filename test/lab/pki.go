// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/endpoint/endpointtest"
)

// TLSFiles are the PEM files of one program.
type TLSFiles = endpoint.TLSFiles

// CA is a certificate authority.
type CA struct {
	Name string

	l  *Lab
	ca *endpointtest.CA
}

// NewCA makes an authority with a new key.
func (l *Lab) NewCA(name string) *CA {
	l.t.Helper()
	return &CA{name, l, endpointtest.NewCA(l.t)}
}

// Issue writes the files of the program of that name, over earlier ones, with a new key. The program
// trusts ca. change may change the certificate before it is signed; see [endpointtest.CA.Issue].
func (ca *CA) Issue(name string, change ...func(*x509.Certificate)) TLSFiles {
	ca.l.t.Helper()
	return ca.ca.Issue(ca.l.t, ca.l.pkiDir(name), name, change...)
}

// Trust has the program of that name trust ca, whoever issued its own certificate.
func (ca *CA) Trust(name string) (file string) {
	ca.l.t.Helper()
	return ca.ca.Trust(ca.l.t, ca.l.pkiDir(name))
}

// pkiDir is the folder with the files of a program.
func (l *Lab) pkiDir(name string) string {
	l.t.Helper()
	dir := filepath.Join(l.Dir, name+"-tls")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		l.t.Fatalf("lab: %v", err)
	}
	return dir
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
