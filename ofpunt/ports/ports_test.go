// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/puntdns/puntdns/internal/vswitch"
)

// The number of a port that the switch has deleted says nothing until the local
// database has caught up: another tenant's port may have it by then.
func TestNumberOfADeletedPort(t *testing.T) {
	old := vswitch.Interface{UUID: "1", Name: "tap-of-some-long-name", OFPort: 3, IfaceID: "red"}
	var o Owners
	show := func(p vswitch.Interface) {
		v := NewView(vswitch.View{Interfaces: []vswitch.Interface{p}}, o.View())
		v.SetDrained()
		o.Set(v)
	}
	who := func() string {
		if i := o.DrainedOwner(3); i != nil {
			return i.IfaceID
		}
		return ""
	}
	check := func(step, want string) {
		t.Helper()
		if d := cmp.Diff(want, who()); d != "" {
			t.Errorf("%s: %s", step, d)
		}
	}
	check("without a view", "")
	show(old)
	check("known", "red")
	o.Deleted(4, "tap-of-some-lon")
	check("one of another number went", "red")
	o.Deleted(3, "tap-of-other")
	check("one of another name went, which the database has replaced already", "red")
	o.Deleted(3, "tap-of-some-lon")
	check("it went", "")
	reused := old
	reused.UUID, reused.IfaceID = "2", "blue"
	show(reused)
	check("the database has caught up", "blue")
}

// Ports that have gone for good leave nothing behind.
func TestForgetGone(t *testing.T) {
	now := time.Now()
	over, lasts := now.Add(-time.Second), now.Add(time.Second)
	var o Owners
	o.gone.Store(&map[uint32]tombstone{
		1: {"gone", over}, 2: {"before", over}, 3: {"stands", over}, 4: {"gone", lasts}, 5: {"before", lasts},
	})
	o.Set(NewView(vswitch.View{Interfaces: []vswitch.Interface{
		{UUID: "other", OFPort: 2}, {UUID: "stands", OFPort: 3}, {UUID: "another", OFPort: 5},
	}}, nil))
	if got, want := slices.Sorted(maps.Keys(*o.gone.Load())), []uint32{3, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("numbers %d have tombstones, want %d", got, want)
	}
}

func viewOf(uuid string, before *View) *View {
	return NewView(vswitch.View{Interfaces: []vswitch.Interface{{UUID: uuid, Name: "tap", OFPort: 3, IfaceID: "of " + uuid}}}, before)
}

// A port that the switch has deleted owns its number no more until the database has had time
// to tell; for as long as the database is away, if it goes away before that.
func TestTombstone(t *testing.T) {
	type step struct {
		name  string
		do    func(*Owners)
		owned bool
	}
	deleted := step{"deleted", func(o *Owners) { o.Deleted(3, "tap") }, false}
	pass := func(d time.Duration, owned bool) step {
		return step{"after " + d.String(), func(*Owners) { time.Sleep(d) }, owned}
	}
	follow := func(yes, owned bool) step {
		return step{"database up", func(o *Owners) { o.SetDatabaseUp(yes) }, owned}
	}
	same := func(owned bool) step {
		return step{"the same row again", func(o *Owners) { o.Set(viewOf("1", o.View())) }, owned}
	}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"the row stays", []step{follow(true, true), deleted, pass(tombstoneTime-1, false), same(false), pass(1, true), same(true)}},
		{"the database is away", []step{deleted, pass(time.Hour, false), same(false), follow(true, true), same(true)}},
		{"it goes away meanwhile", []step{follow(true, true), deleted, pass(time.Second, false), follow(false, false), pass(time.Hour, false)}},
		{"it goes away later", []step{follow(true, true), deleted, pass(time.Hour, true), follow(false, true), pass(time.Hour, true)}},
		{"another row", []step{follow(true, true), deleted, {"another row", func(o *Owners) { o.Set(viewOf("2", o.View())) }, true}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var o Owners
				o.Set(viewOf("1", nil))
				for i, s := range tt.steps {
					s.do(&o)
					if got := o.Owner(3) != nil; got != s.owned {
						t.Errorf("step %d, %s: owned %v, want %v", i, s.name, got, s.owned)
					}
				}
			})
		})
	}
}

// An answer is for the row that asked.
func TestMoved(t *testing.T) {
	var o Owners
	o.Set(viewOf("1", nil))
	asked := o.Owner(3)
	check := func(name string, want bool) {
		t.Helper()
		if got := o.Moved(asked, 3); got != want {
			t.Errorf("%s: moved %v, want %v", name, got, want)
		}
	}
	check("the same view", false)
	o.Set(viewOf("1", o.View()))
	check("the same row", false)
	o.Deleted(3, "tap")
	check("a deleted port", true)
	o.Set(viewOf("2", o.View()))
	check("another row", true)
	o.Set(NewView(vswitch.View{}, o.View()))
	check("no row", true)
}

// An error to somebody who was not known is for nobody who is known by now.
func TestMovedUnknown(t *testing.T) {
	var o Owners
	check := func(name string, want bool) {
		t.Helper()
		if got := o.Moved(nil, 3); got != want {
			t.Errorf("%s: moved %v, want %v", name, got, want)
		}
	}
	check("no view", false)
	o.Set(NewView(vswitch.View{}, nil))
	check("no row", false)
	o.Set(viewOf("1", o.View()))
	check("packets of an earlier owner may be in flight", false)
	o.View().SetDrained()
	check("known", true)
	o.Deleted(3, "tap")
	check("a deleted port", false)
}

// Readers and writers at once, for the race detector.
func TestConcurrently(t *testing.T) {
	var o Owners
	o.Set(viewOf("1", nil))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				if i := o.Owner(3); i != nil && i.OFPort != 3 {
					t.Errorf("%+v", i)
				}
				o.DrainedOwner(3)
				o.Moved(o.Owner(3), 3)
			}
		})
	}
	wg.Go(func() {
		for i := range 1000 {
			o.Deleted(3, "tap")
			o.Set(viewOf(string(rune('a'+i%2)), o.View()))
			o.View().SetDrained()
			o.SetDatabaseUp(i%3 == 0)
		}
	})
	wg.Wait()
}

// BenchmarkOwner is what each query asks, on all processors at once, while some port has
// gone.
func BenchmarkOwner(b *testing.B) {
	var o Owners
	o.Set(NewView(vswitch.View{Interfaces: []vswitch.Interface{{UUID: "1", Name: "a", OFPort: 3}, {UUID: "2", Name: "b", OFPort: 4}}}, nil))
	o.Deleted(4, "b")
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if o.Owner(3) == nil {
				b.Error("no owner")
			}
		}
	})
}
