// SPDX-License-Identifier: Apache-2.0

package endpoint_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/endpoint/endpointtest"
)

// serve answers each connection with the common name of its client.
func serve(t *testing.T, cfg *tls.Config) endpoint.Endpoint {
	t.Helper()
	e, err := endpoint.Parse("pssl:0:127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	l, err := e.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			tc := conn.(*tls.Conn)
			_ = tc.SetDeadline(time.Now().Add(10 * time.Second))
			if tc.Handshake() == nil {
				_, _ = io.WriteString(tc, tc.ConnectionState().PeerCertificates[0].Subject.CommonName)
			}
			_ = tc.Close()
		}
	}()
	return endpoint.Endpoint{Network: "tcp", Address: l.Addr().String(), TLS: true}
}

// ask returns the server's name and its answer.
func ask(t *testing.T, e endpoint.Endpoint, cfg *tls.Config) (server, answer string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := e.Dial(ctx, cfg)
	if err != nil {
		return "", "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	// In TLS 1.3 a client learns of its refusal at its first read.
	text, err := io.ReadAll(conn)
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName, string(text), err
}

func config(t *testing.T, f endpoint.TLSFiles, server bool) *tls.Config {
	t.Helper()
	cfg, err := f.Config(server)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestTLSBothSidesVerify(t *testing.T) {
	ours, theirs := endpointtest.NewCA(t), endpointtest.NewCA(t)
	server := serve(t, config(t, ours.Issue(t, t.TempDir(), "server"), true))

	name, answer, err := ask(t, server, config(t, ours.Issue(t, t.TempDir(), "client"), false))
	if err != nil || name != "server" || answer != "client" {
		t.Errorf("got %q, %q, %v", name, answer, err)
	}

	// The client trusts another CA.
	if _, _, err := ask(t, server, config(t, theirs.Issue(t, t.TempDir(), "client"), false)); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("a server of another CA: %v", err)
	}
	// The server does.
	files := theirs.Issue(t, t.TempDir(), "client")
	files.CA = ours.Issue(t, t.TempDir(), "x").CA
	if _, answer, err := ask(t, server, config(t, files, false)); err == nil || answer != "" {
		t.Errorf("a client of another CA got %q, %v", answer, err)
	}
	// The client has no certificate at all.
	cfg := config(t, ours.Issue(t, t.TempDir(), "client"), false)
	cfg.GetClientCertificate = nil
	if _, answer, err := ask(t, server, cfg); err == nil || answer != "" {
		t.Errorf("a client without certificate got %q, %v", answer, err)
	}
	cfg = config(t, ours.Issue(t, t.TempDir(), "client"), false)
	cfg.MaxVersion = tls.VersionTLS11
	cfg.MinVersion = tls.VersionTLS10
	if _, _, err := ask(t, server, cfg); err == nil {
		t.Error("TLS 1.1 is accepted")
	}
}

func TestTLSFilesChange(t *testing.T) {
	first, second := endpointtest.NewCA(t), endpointtest.NewCA(t)
	dir, clientDir := t.TempDir(), t.TempDir()
	files := first.Issue(t, dir, "one")
	server := serve(t, config(t, files, true))
	client := config(t, first.Issue(t, clientDir, "client one"), false)

	expect := func(wantName, wantAnswer string) {
		t.Helper()
		name, answer, err := ask(t, server, client)
		if err != nil || name != wantName || answer != wantAnswer {
			t.Fatalf("got %q, %q, %v, want %q, %q", name, answer, err, wantName, wantAnswer)
		}
	}
	expect("one", "client one")
	first.Issue(t, dir, "two")
	expect("two", "client one")
	// Half written: the good ones before stay in use.
	if err := os.WriteFile(files.Key, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect("two", "client one")
	second.Issue(t, dir, "three")
	if _, _, err := ask(t, server, client); err == nil {
		t.Fatal("the server's CA and the client's differ, and nobody minds")
	}
	second.Issue(t, clientDir, "client three")
	expect("three", "client three")
}

func TestTLSFilesErrors(t *testing.T) {
	good := endpointtest.NewCA(t).Issue(t, t.TempDir(), "x")
	for _, tt := range []struct {
		name, want string
		change     func(*endpoint.TLSFiles)
	}{
		{"nothing", "needs a certificate", func(f *endpoint.TLSFiles) { *f = endpoint.TLSFiles{} }},
		{"no CA", "needs a certificate", func(f *endpoint.TLSFiles) { f.CA = "" }},
		{"missing", "no such file", func(f *endpoint.TLSFiles) { f.Cert += "x" }},
		{"key as CA", "expected PEM certificates", func(f *endpoint.TLSFiles) { f.CA = f.Key }},
		{"key as certificate", "key.pem", func(f *endpoint.TLSFiles) { f.Cert = f.Key }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := good
			tt.change(&f)
			if _, err := f.Config(false); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestDialEndsWithContext(t *testing.T) {
	// The kernel accepts the connection, and no process answers the handshake.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	e := endpoint.Endpoint{Network: "tcp", Address: l.Addr().String(), TLS: true}
	if _, err := e.Dial(ctx, config(t, endpointtest.NewCA(t).Issue(t, t.TempDir(), "x"), false)); err == nil {
		t.Error("no error")
	}
}
