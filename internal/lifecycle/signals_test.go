// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"

	"github.com/puntdns/puntdns/internal/corefile/corefiletest"
	"github.com/puntdns/puntdns/internal/precheck"
	"github.com/puntdns/puntdns/plugins"
)

// The callback of the real *health* is found: while it sleeps for its lameduck, queries are served.
func TestHealthComesFirst(t *testing.T) {
	const lameduck = 100 * time.Millisecond
	if err := dnsserver.SetDirectives(plugins.Directives); err != nil {
		t.Fatal(err)
	}
	i := corefiletest.Start(t, caddy.CaddyfileInput{ServerTypeName: precheck.ServerType, Contents: []byte(`.:0 {
    bind 127.0.0.1
    health 127.0.0.1:0 {
        lameduck 100ms
    }
    whoami
}`)})
	begin := time.Now()
	if err := lastCallbacks(i, time.Second)[0](); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took < lameduck {
		t.Errorf("the first callback took %s, that of health takes %s", took, lameduck)
	}
}
