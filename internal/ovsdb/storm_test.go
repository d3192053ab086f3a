// SPDX-License-Identifier: Apache-2.0

package ovsdb_test

import (
	"encoding/json"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/ovsdb"
)

// A server that hangs up as soon as it has given the contents is pressed less and
// less, however long they took.
func TestServerThatHangsUp(t *testing.T) {
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
		dec := json.NewDecoder(conn)
		for {
			var req request
			if dec.Decode(&req) != nil {
				return
			}
			var params []json.RawMessage
			_ = json.Unmarshal(req.Params, &params)
			switch {
			case req.Method == "monitor_cond" && string(params[0]) == `"_Server"`:
				fmt.Fprintf(conn, `{"error":{"error":"unknown database"},"result":null,"id":%s}`, req.ID)
			case req.Method == "get_schema":
				fmt.Fprintf(conn, `{"result":%s,"error":null,"id":%s}`, fakeSchema, req.ID)
			default:
				time.Sleep(contents)
				fmt.Fprintf(conn, `{"result":{},"error":null,"id":%s}`, req.ID)
				return
			}
		}
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
