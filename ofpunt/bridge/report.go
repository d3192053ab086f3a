// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/metric"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// reporter turns reports on one connection into logs, metrics and readiness. Only the session's goroutine uses it.
type reporter struct {
	name          string // the bridge's
	readiness     *readiness
	successor     *successor
	placed        *atomic.Int64
	rateDropped   func(map[placement.Key]uint64)
	last          flows.Placed
	metersFailure *string
	// options are of the server whose flows are installed.
	options *config.Bridge
}

func (r *reporter) infof(format string, args ...any) {
	log.Infof("Bridge %s: %s", r.name, fmt.Sprintf(format, args...))
}

func (r *reporter) warningf(format string, args ...any) {
	log.Warningf("Bridge %s: %s", r.name, fmt.Sprintf(format, args...))
}

func (r *reporter) report(c flows.Report) {
	switch c := c.(type) {
	case flows.Waiting:
		r.readiness.set(c.Reason)
		r.infof("waiting: %s", c.Reason)
	case flows.Installed:
		metric.FlowInstalls.WithLabelValues(r.name, "new").Add(float64(c.New))
		metric.FlowInstalls.WithLabelValues(r.name, "lost").Add(float64(c.Lost))
	case flows.Placed:
		r.placedFlows(c)
	case flows.Serving:
		r.readiness.set("")
		r.successor.gone() // after a reconnection no TookOver follows
	case flows.LeaseMissing:
		r.readiness.set("the punt is not installed in the switch")
	case flows.Withdrawn:
		if c.Replaced {
			r.successor.seen(time.Now())
		}
		if c.Closed > 0 {
			r.infof("the switch drops the queries of %d guests with `fail closed` until a puntdns runs here", c.Closed)
		}
	case flows.Yielded:
		r.successor.seen(time.Now())
		r.readiness.set("a process that was started later has taken over")
		if !c.Still {
			r.infof("another process has taken over")
		}
	case flows.TookOver:
		r.successor.gone()
		r.infof("the process that had taken over is gone, taking back")
	case flows.Lost:
		r.warningf("%d flows were removed or changed by another process", c.Flows)
	case flows.LeaseExpired:
		metric.LeaseExpiries.WithLabelValues(r.name).Inc()
		r.warningf("the punt has expired, as it was not renewed in time: no query is punted until it is installed again")
	case flows.LeaseRestored:
		r.infof("the punt is installed again")
	case flows.ProbeTook:
		metric.ProbeDuration.WithLabelValues(r.name).Observe(c.Time.Seconds())
		if r.options.Lease == 0 {
			metric.LeaseRenewed.WithLabelValues(r.name).SetToCurrentTime()
		}
	case flows.ProbeMissed:
		r.warningf("a probe through the switch did not come back in %s, the punt is not renewed", c.Heartbeat)
	case flows.ProbesBack:
		r.infof("probes come back again")
	case flows.Renewed:
		metric.LeaseRenewed.WithLabelValues(r.name).SetToCurrentTime()
	case flows.RenewFailed:
		r.warningf("renewing the punt: %v", c.Err)
	case flows.MetersRefused:
		*r.metersFailure = c.Err.Error()
		r.warningf("rate is not enforced: %v", c.Err)
	case flows.MetersShort:
		*r.metersFailure = fmt.Sprintf("there is room for %d meters, for a part of the guests", c.Room)
		r.warningf("rate is not enforced for some guests: there is room for %d meters", c.Room)
	case flows.MetersEnforced:
		*r.metersFailure = ""
		r.infof("rate is enforced again")
	case flows.Dropped:
		metric.RateDrops.WithLabelValues(r.name).Add(float64(c.Packets))
		for limit, packets := range c.ByLimit {
			metric.LimitRefused.WithLabelValues(r.name, limit, metric.PropertyRate).Add(float64(packets))
		}
		r.rateDropped(c.ByGuest)
	}
}

func (r *reporter) placedFlows(p flows.Placed) {
	r.last = p
	metric.Flows.WithLabelValues(r.name).Set(float64(p.Flows))
	metric.Guests.WithLabelValues(r.name).Set(float64(p.Guests))
	switch {
	case p.First:
		r.placed.Add(1)
		r.infof("flows are in place, %s", r.describePlacement(p))
	case p.Again:
		r.infof("flows are in place again, %s", r.describePlacement(p))
	case p.Guests != p.Before:
		r.infof("guests: %d, before: %d", p.Guests, p.Before)
	}
}

func (r *reporter) describePlacement(p flows.Placed) string {
	switch o := r.options; {
	case o.Placement == placement.OVN && p.Table == 0:
		return "none so far, as this chassis has no guest"
	case o.Placement == placement.OVN:
		return fmt.Sprintf("OVN's DNS stage is table %d, guests: %d", p.Table, p.Guests)
	default:
		return fmt.Sprintf("in table %d at priority %d, guests: %d", o.Table, o.Priority, p.Guests)
	}
}
