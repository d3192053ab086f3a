// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// TestTellStatus reads what the service manager gets while a process starts, loses its switch and gets it
// back, and after a restart of the service manager.
func TestTellStatus(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	listen := func() *net.UnixConn {
		manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		return manager
	}
	manager := listen()
	t.Setenv("NOTIFY_SOCKET", path)

	var reasons atomic.Pointer[[]string]
	set := func(all ...string) { reasons.Store(&all) }
	set("the plugins are being started")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		TellStatus(ctx, func() []string { return *reasons.Load() })
		close(ended)
	}()
	told := func(want string) {
		t.Helper()
		b := make([]byte, 512)
		n, err := manager.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(b[:n]); got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	told("STATUS=the plugins are being started")
	set("bridge br-int: no switch", "bridge br-ex: no switch")
	told("STATUS=bridge br-int: no switch; bridge br-ex: no switch")
	set()
	told("READY=1\nSTATUS=serving")
	set("bridge br-int: no switch")
	told("STATUS=bridge br-int: no switch")

	manager.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	set()
	manager = listen()
	defer manager.Close()
	told("READY=1\nSTATUS=serving")
	cancel()
	<-ended
}

func TestTellNobody(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	TellStatus(t.Context(), func() []string { return nil }) // returns
}
