// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"
)

// The page that puntctl's own test writes has five queries, four over the rate and five lost.
func TestToldByWatch(t *testing.T) {
	page, err := os.ReadFile("../../internal/puntctl/testdata/watch.txt")
	if err != nil {
		t.Fatal(err)
	}
	if all, lost := toldByWatch(string(page)); all != 14 || lost != 5 {
		t.Errorf("%v queries, %v of them lost; want 14 and 5", all, lost)
	}
}
