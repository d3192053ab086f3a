// SPDX-License-Identifier: Apache-2.0

package punt

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// opener outlives the connection to the switch, as TCP connections do.
type opener struct {
	intake *Intake
	guest  placement.Key
}

func (o *opener) Open(ctx context.Context, a *opening.Answer) error {
	return o.intake.bridge.Open(ctx, o.guest, a)
}

// Stands implements opening.Opener.
func (o *opener) Stands(name string, to opening.Destination, lasts time.Duration) bool {
	return o.intake.bridge.Stands(placement.Opening{Guest: o.guest, To: to}, name, lasts)
}

// IsNode implements opening.Opener.
func (o *opener) IsNode(a netip.Addr) bool {
	view := o.intake.bridge.Ports.View()
	return view != nil && slices.Contains(view.TunnelAddresses, a)
}
