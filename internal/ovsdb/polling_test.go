// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"testing"
	"time"
)

// The interval follows the transactions that there were: counted by the index, else by trial.
func TestPollInterval(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name             string
		interval, passed time.Duration
		transactions     int64
		remembered       bool
		relay            bool // it has no index
		want             time.Duration
	}{
		{"ten a second", time.Second, time.Second, 10, true, false, 3500 * time.Millisecond},
		{"a hundred a second", 10 * time.Second, 10 * time.Second, 1000, false, false, minPollInterval},
		{"thousands a second", time.Second, time.Second, 5000, false, false, minPollInterval},
		{"one a minute", time.Second, time.Minute, 1, true, false, maxPollInterval},
		{"none", time.Second, time.Second, 0, true, false, 2 * time.Second},
		{"a relay that remembers", time.Second, time.Second, 0, true, true, 1250 * time.Millisecond},
		{"none for long", maxPollInterval, maxPollInterval, 0, true, false, maxPollInterval},
		{"a relay that has forgotten", 8 * time.Second, 8 * time.Second, 0, false, true, 2 * time.Second},
		{"a small database that has forgotten", 8 * time.Second, 8 * time.Second, 35, false, false, 2 * time.Second},
		{"an index that goes back", time.Second, time.Second, -5, true, false, 1250 * time.Millisecond},
	} {
		now := time.Now()
		index := int64(7)
		if tt.relay {
			index = 0
		}
		a := polling{outstanding: 2, remembered: tt.remembered, interval: tt.interval, index: index, indexAt: now}
		a.replied(now.Add(tt.passed), index+tt.transactions)
		if a.interval != tt.interval {
			t.Errorf("%s: %s before the last reply", tt.name, a.interval)
		}
		if a.replied(now.Add(tt.passed), index+tt.transactions); a.interval != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, a.interval, tt.want)
		}
	}
}

// A server that reports transactions with rows is still asked for its index, a relay is not.
func TestPollDue(t *testing.T) {
	t.Parallel()
	now := time.Now()
	a := polling{seenAt: now.Add(time.Minute), sentAt: now, interval: maxPollInterval}
	if got := a.due(true).Sub(now); got != maxIndexAge {
		t.Errorf("of a cluster: in %s, want %s", got, maxIndexAge)
	}
	if got := a.due(false).Sub(now); got != time.Minute+maxPollInterval {
		t.Errorf("of a relay: in %s, want %s", got, time.Minute+maxPollInterval)
	}
}
