// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/dnstap/golang-dnstap"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/corefile/corefiletest"
	"github.com/puntdns/puntdns/internal/precheck"
	"github.com/puntdns/puntdns/plugins"
)

// When the callbacks of the end have returned, the collector has each message of dnstap, though more of
// them waited than its socket has room for. A collector that takes none ends the wait all the same.
func TestDnstapEnd(t *testing.T) {
	if err := dnsserver.SetDirectives(plugins.Directives); err != nil {
		t.Fatal(err)
	}
	const queries = 5
	for _, tt := range []struct {
		name    string
		reads   bool
		timeout time.Duration
	}{{"a collector that reads slowly", true, time.Minute}, {"a collector that hangs", false, 50 * time.Millisecond}} {
		t.Run(tt.name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "tap.sock")
			listener, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			connected, frames := make(chan net.Conn, 1), make(chan []byte)
			go func() {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				connected <- conn
				// It reads one frame, and the next one when that was taken.
				if in, err := dnstap.NewFrameStreamInput(conn, true); err == nil {
					in.ReadInto(frames)
				}
			}()
			i := corefiletest.Start(t, caddy.CaddyfileInput{ServerTypeName: precheck.ServerType, Contents: fmt.Appendf(nil, `.:0 {
    bind 127.0.0.1
    dnstap unix://%s {
        extra %s
    }
    whoami
}
`, socket, strings.Repeat("x", 60_000))})
			defer (<-connected).Close()
			client := dns.Client{Net: "tcp", Timeout: time.Minute}
			for range queries {
				if _, _, err := client.Exchange(new(dns.Msg).SetQuestion("example.org.", dns.TypeA), i.Servers()[0].Addr().String()); err != nil {
					t.Fatal(err)
				}
			}
			ended, counted := make(chan struct{}), make(chan int)
			if tt.reads {
				go func() {
					n := 0
					for {
						time.Sleep(10 * time.Millisecond)
						select {
						case <-frames:
							n++
						case <-ended:
							counted <- n
							return
						}
					}
				}()
			}
			for _, f := range lastCallbacks(i, tt.timeout) {
				if err := f(); err != nil {
					t.Error(err)
				}
			}
			close(ended)
			if err := i.Stop(); err != nil {
				t.Error(err)
			}
			if !tt.reads {
				return
			}
			// Start has asked over TCP and UDP.
			if got, want := <-counted, 2*(queries+2); got != want {
				t.Errorf("the collector has %d messages, want %d", got, want)
			}
		})
	}
}
