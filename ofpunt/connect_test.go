// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/openflow"
	"github.com/puntdns/puntdns/ofpunt/punt"
	"github.com/puntdns/puntdns/ofpunt/punttest"
)

// A switch that goes while a request waits for it is told as a lost connection, not as what
// the request was for.
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

	b := &bridge{name: "br-lost", tally: metric.NewTally("br-lost")}
	b.punts = punt.NewIntake(b.puntBridge())
	defer b.punts.Close()
	s := chainServer(t)
	s.options.OpenFlow = endpoint.Endpoint{Network: "unix", Address: path}
	b.serve(s)
	err = b.connect(t.Context(), &s.options, func() {})
	if n := <-requested; n == 0 {
		t.Fatal("the session asks nothing of the switch, the test shows nothing")
	}
	if err == nil || !strings.Contains(err.Error(), "/mgmt: connection lost: ") {
		t.Errorf("%v", err)
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
			err := sayHang(fmt.Errorf("reading what the meters have dropped: %w", tt.err))
			if !errors.Is(err, tt.err) || strings.HasPrefix(err.Error(), "the switch does not answer: reading") != tt.hangs {
				t.Errorf("%v", err)
			}
		})
	}
	if err := sayHang(nil); err != nil {
		t.Error(err)
	}
}
