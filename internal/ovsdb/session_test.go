// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/endpoint/endpointtest"
)

// A server that refuses our certificate has sent its reason and hung up before a write of ours fails: its
// reason counts.
func TestWriteTellsRefusal(t *testing.T) {
	ca := endpointtest.NewCA(t)
	serverTLS, err := ca.Issue(t, t.TempDir(), "server").Config(true)
	if err != nil {
		t.Fatal(err)
	}
	files := endpointtest.NewCA(t).Issue(t, t.TempDir(), "stranger")
	files.CA = ca.Issue(t, t.TempDir(), "client").CA
	clientTLS, err := files.Config(false)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	hungUp := make(chan struct{})
	go func() {
		defer close(hungUp)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_ = tls.Server(conn, serverTLS).Handshake()
		conn.Close()
	}()
	conn, err := tls.Dial("tcp", l.Addr().String(), clientTLS)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	<-hungUp

	s := newSession(t.Context(), New(Config{}), conn, nil)
	// The first write makes the other side report that it has gone.
	for end := time.Now().Add(30 * time.Second); err == nil && time.Now().Before(end); {
		err = s.write([]byte("{}"))
	}
	if err == nil || !strings.Contains(err.Error(), "remote error: tls: bad certificate") {
		t.Errorf("got %v, want what the server said", err)
	}
}
