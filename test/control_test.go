// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/puntctl"
	"github.com/puntdns/puntdns/test/lab"
)

const controlCorefile = `. {
    ofpunt br-int {
        openflow $MGMT
        ovsdb $OVSDB
        lease $LEASE
        control unix:SOCKET
        MORE
    }
    errors
    ready ` + readyAddr + ` {
        monitor continuously
    }
    prometheus ` + metricsAddr + `
    ovnhosts {
        southbound SBGATE
        northbound $NB
        domain cloud.internal
    }
}
`

// operator asks a puntdns over its control socket.
type operator struct {
	t      *testing.T
	l      *lab.Lab
	socket string
}

// run runs puntctl, and returns what it says and its exit status.
func (o *operator) run(args ...string) (stdout, stderr string, status int) {
	o.t.Helper()
	var out, errs bytes.Buffer
	status = puntctl.Run("test", append([]string{"--socket", o.socket}, args...), &out, &errs)
	return out.String(), errs.String(), status
}

// ask asks for an answer.
func (o *operator) ask(answer any, args ...string) (status int) {
	o.t.Helper()
	out, errs, status := o.run(append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), answer); err != nil {
		o.t.Fatalf("%v: %v: %q, %q", args, err, out, errs)
	}
	return status
}

// eventually waits until status has exactly these problems, and checks its exit status.
func (o *operator) eventually(codes ...string) (s api.Status) {
	o.t.Helper()
	o.l.Eventually(fmt.Sprintf("status with %q", codes), func() error {
		s = api.Status{}
		status := o.ask(&s, "status")
		var got []string
		for _, p := range s.Problems {
			got = append(got, p.Code)
		}
		want := 0
		if len(codes) > 0 {
			want = 1
		}
		if fmt.Sprint(got) != fmt.Sprint(codes) || status != want || s.Well != (want == 0) {
			return fmt.Errorf("exit status %d, %+v", status, s.Problems)
		}
		return nil
	})
	return s
}

func TestControl(t *testing.T) {
	t.Parallel()
	n := newOverlap(t)
	socket := filepath.Join(n.Dir, "control.sock")
	o := &operator{t, n.Lab, socket}
	_ = serve(t, n.Lab, corefile(n.Lab, replaceAll(controlCorefile, "SOCKET", socket, "MORE", "", "SBGATE", n.SB)))
	s := o.eventually()
	out, _, _ := o.run("status")
	t.Logf("%s\n%+v", out, s)
}

func replaceAll(text string, pairs ...string) string {
	return strings.NewReplacer(pairs...).Replace(text)
}
