// SPDX-License-Identifier: Apache-2.0

package ovsdb_test

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/ovsdb"
)

// A server that hangs up as soon as it has given the contents is pressed less and
// less, however long they took.
func TestServerThatHangsUp(t *testing.T) {
	t.Parallel()
	const (
		tries    = 7
		minimum  = 50 * time.Millisecond
		maximum  = 400 * time.Millisecond
		contents = maximum/4 + 20*time.Millisecond
		// The shortest waits: half of 50, 100, 200, 400, 400 and 400 ms.
		least = 775*time.Millisecond + (tries-1)*contents
	)
	asked := make(chan time.Time, 1000)
	start(t, newReplica(), func(cfg *ovsdb.Config) {
		fakeTables(cfg)
		cfg.MinBackoff, cfg.MaxBackoff = minimum, maximum
	}, fake(t, func(conn net.Conn) {
		asked <- time.Now()
		script(func(req request, _ int) string {
			time.Sleep(contents)
			fmt.Fprintf(conn, `{"result":{},"error":null,"id":%s}`, req.ID)
			conn.Close()
			return ""
		})(conn)
	}))
	first := <-asked
	var last time.Time
	for range tries - 1 {
		last = <-asked
	}
	if took := last.Sub(first); took < least {
		t.Errorf("%d tries in %s, want them over %s at least", tries, took, least)
	}
}
