// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/punt"
	"github.com/puntdns/puntdns/ofpunt/punttest"
)

func TestConnectionLostDuringRequest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mgmt")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	requested := make(chan int, 1)
	go func() {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		punttest.ShakeHands(nc)
		n, _ := nc.Read(make([]byte, 1<<16))
		requested <- n
	}()

	b := &Bridge{name: "br-lost", accepted: new(acceptedConns), tally: metric.NewTally("br-lost")}
	b.punts = punt.NewIntake(b.puntBridge())
	defer b.punts.Close()
	s := chainServer(t)
	s.Options.OpenFlow = endpoint.Endpoint{Network: "unix", Address: path}
	b.serve(s)
	err = b.connect(t.Context(), &s.Options, func() {})
	if n := <-requested; n == 0 {
		t.Fatal("the session asks nothing of the switch, the test shows nothing")
	}
	if err == nil || !strings.Contains(err.Error(), "/mgmt: connection lost: ") {
		t.Errorf("%v", err)
	}
}

// On a Unix socket one connection waits for a silent switch: more would fill the switch's backlog.
func TestSilentSwitch(t *testing.T) {
	for _, tt := range []struct {
		name, network, address string
		waits                  bool
	}{
		{"a Unix socket", "unix", filepath.Join(t.TempDir(), "mgmt"), true},
		{"a network", "tcp", "127.0.0.1:0", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, err := net.Listen(tt.network, tt.address)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			nc, err := net.Dial(tt.network, l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			peer, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer peer.Close()
			told := make(chan error, 2)
			conn, err := shakeHands(t.Context(), nc, endpoint.Endpoint{Network: tt.network, Address: tt.address}, 1, time.Millisecond, func(err error) {
				told <- err
				go punttest.ShakeHands(peer)
			})
			if !tt.waits {
				if !isHang(err) || len(told) > 0 {
					t.Errorf("%v, and silence was told %d times, want an error that is a hang", err, len(told))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			conn.Close()
			if n, err := len(told), <-told; n != 1 || !isHang(err) {
				t.Errorf("silence was told %d times, %v, want once, as a hang", n, err)
			}
		})
	}
}

func TestExplain(t *testing.T) {
	for _, tt := range []struct {
		name  string
		err   error
		hangs bool
	}{
		{"no echo", fmt.Errorf("openflow: %w within 5s", openflow.ErrNoEcho), true},
		{"a request", context.DeadlineExceeded, true},
		{"the handshake", os.ErrDeadlineExceeded, true},
		{"it has gone", errors.New("connection refused"), false},
		{"another connection is wanted", errOptions, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plain := fmt.Errorf("reading: %w", tt.err)
			err := sayHang(plain)
			if !errors.Is(err, plain) || (err.Error() != plain.Error()) != tt.hangs {
				t.Errorf("%v", err)
			}
		})
	}
	if err := sayHang(nil); err != nil {
		t.Error(err)
	}
}
