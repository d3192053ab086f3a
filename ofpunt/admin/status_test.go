// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"slices"
	"testing"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/ofpunt/bridge"
	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/ports"
)

// A stall hides its effects.
func TestTellStalled(t *testing.T) {
	const stalled = "the switch waits for ovsdb-server"
	lost := errors.New("connection lost")
	for _, tt := range []struct {
		name    string
		stalled string
		session *bridge.SessionState
		want    []string
	}{
		{"without a connection", stalled, nil, []string{api.CodeStalled}},
		{"with one that is open still", stalled, &bridge.SessionState{List: new(guests.List)}, []string{api.CodeStalled}},
		{"both are away, each for itself", "", nil, []string{api.CodeSwitch, api.CodeLocalDatabase}},
		{"the database alone", "", &bridge.SessionState{List: new(guests.List)}, []string{api.CodeLocalDatabase}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := bridge.NewServer(bridge.Config{Options: config.Default("br-int")})
			to := bridgeStatus{State: &bridge.State{Name: "br-int", Server: srv, Session: tt.session, View: &ports.View{}, Stalled: tt.stalled, LocalFailure: lost}, srv: srv}
			var got []string
			for _, p := range to.problems() {
				got = append(got, p.Code)
				if p.Code == api.CodeStalled && (p.About != "br-int" || p.Text != tt.stalled) {
					t.Errorf("%+v", p)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
