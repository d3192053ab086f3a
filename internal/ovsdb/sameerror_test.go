// SPDX-License-Identifier: Apache-2.0

package ovsdb_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/endpoint/endpointtest"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/testkit"
)

// One failure is reported once, though it shows at another step of each try.
func TestSameFailureIsReportedOnce(t *testing.T) {
	t.Parallel()
	ca := endpointtest.NewCA(t)
	files := ca.Issue(t, t.TempDir(), "server")
	serverTLS, err := files.Config(true)
	if err != nil {
		t.Fatal(err)
	}
	stranger := endpointtest.NewCA(t).Issue(t, t.TempDir(), "stranger")
	stranger.CA = files.CA
	clientTLS, err := stranger.Config(false)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	ended := make(chan struct{})
	t.Cleanup(func() {
		close(ended)
		serving.Wait()
	})
	// Unread bytes reset the connection.
	hangUp := func(c net.Conn, n int64) {
		if n%2 == 0 {
			var first [1]byte
			_, _ = c.Read(first[:])
		}
	}
	for _, tt := range []struct {
		name, method string
		serve        func(c net.Conn, n int64)
		change       func(*ovsdb.Config)
		tries        int64
		want         string
	}{
		{"hangs up", "tcp", hangUp, nil, 30, "the server closed the connection"},
		{"hangs up in a reply", "tcp", func(c net.Conn, _ int64) {
			_ = json.NewDecoder(c).Decode(&request{})
			_, _ = io.WriteString(c, `{"id":1,"resu`)
		}, nil, 30, "the server closed the connection"},
		{"hangs up on TLS", "ssl", hangUp, nil, 30, "the server closed the connection"},
		{"refuses the certificate", "ssl", func(c net.Conn, _ int64) {
			_ = tls.Server(c, serverTLS).Handshake()
		}, nil, 30, "remote error: tls: bad certificate"},
		{"reads no more", "tcp", func(c net.Conn, _ int64) {
			dec := json.NewDecoder(c)
			// The conditions follow the first contents.
			for _, result := range []string{`"error":"unknown database"`, `"result":` + fakeSchema, contents("{}")} {
				var req request
				if dec.Decode(&req) != nil {
					return
				}
				fmt.Fprintf(c, `{"id":%s,%s}`, req.ID, result)
			}
			<-ended
		}, func(cfg *ovsdb.Config) {
			cfg.ReplyTimeout = 50 * time.Millisecond
			cfg.Tables[0].Where = []ovsdb.Condition{{Column: "name", Function: "==", Value: strings.Repeat("a", 16<<20)}}
		}, 4, "i/o timeout"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var n atomic.Int64
			serving.Go(func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					serving.Go(func() {
						defer c.Close()
						tt.serve(c, n.Add(1))
					})
				}
			})
			t.Cleanup(func() { l.Close() })
			r := newReplica()
			start(t, r, func(cfg *ovsdb.Config) {
				fakeTables(cfg)
				cfg.ProbeInterval, cfg.TLS = time.Minute, clientTLS
				if tt.change != nil {
					tt.change(cfg)
				}
			}, tt.method+":"+l.Addr().String())
			r.waitDown(t, tt.want)
			testkit.Eventually(t, fmt.Sprint(tt.tries, " tries"), func() bool { return n.Load() >= tt.tries })
			got := slices.DeleteFunc(r.takeEvents(), func(event string) bool { return event == "reset" })
			if len(got) != 1 {
				t.Errorf("reported %q", got)
			}
		})
	}
}
