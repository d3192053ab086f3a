// SPDX-License-Identifier: Apache-2.0

package refcount_test

import (
	"errors"
	"testing"

	"github.com/puntdns/puntdns/internal/refcount"
)

func TestPool(t *testing.T) {
	var pool refcount.Pool[string, *int]
	made := 0
	make1 := func() (*int, error) { made++; return new(int), nil }
	acquire := func(key string) *int {
		t.Helper()
		v, err := pool.Acquire(key, make1)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	a, again, b := acquire("a"), acquire("a"), acquire("b")
	if a != again || a == b || made != 2 {
		t.Fatalf("two keys have %d values", made)
	}
	if n := len(pool.All()); n != 2 {
		t.Fatalf("All has %d values, expected 2", n)
	}
	if pool.Release("a", a) {
		t.Fatal("the first of two references was the last")
	}
	if !pool.Release("a", a) {
		t.Fatal("the last of two references was not the last")
	}
	other := acquire("a")
	if other == a {
		t.Fatal("a value that was let go is handed out again")
	}
	if pool.Release("a", a) {
		t.Fatal("a release too many took the value of another")
	}
	if got := acquire("a"); got != other {
		t.Fatal("the value was lost to a release too many")
	}
	if pool.Release("c", other) {
		t.Fatal("a key that nobody has was let go")
	}
}

// A start that fails leaves nothing behind.
func TestPoolStartFails(t *testing.T) {
	var pool refcount.Pool[string, int]
	want := errors.New("refused")
	if _, err := pool.Acquire("a", func() (int, error) { return 0, want }); !errors.Is(err, want) {
		t.Fatalf("got %v", err)
	}
	if n := len(pool.All()); n != 0 {
		t.Fatalf("%d values stay", n)
	}
	if v, err := pool.Acquire("a", func() (int, error) { return 7, nil }); err != nil || v != 7 {
		t.Fatalf("then %d, %v", v, err)
	}
}
