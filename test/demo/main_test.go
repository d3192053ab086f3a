// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// KEEP=0 keeps nothing.
func TestIsOn(t *testing.T) {
	for value, want := range map[string]bool{"": false, "0": false, "1": true, "yes": true} {
		if got := isOn(value); got != want {
			t.Errorf("%q: %v", value, got)
		}
	}
}

// The recording is of the commands that are to be recorded, and names no folder of a machine.
func TestRecorded(t *testing.T) {
	transcript, err := os.ReadFile("../pictures/demo.txt")
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, line := range regexp.MustCompile(`(?m)^\$ (.*)$`).FindAllSubmatch(transcript, -1) {
		commands = append(commands, string(line[1]))
	}
	if want := append([]string{demoCommand}, recorded...); !slices.Equal(commands, want) {
		t.Errorf("the recording is of %q, want %q: run `make recording`", commands, want)
	}
	if path := regexp.MustCompile(` /[\w/.-]+`).Find(transcript); path != nil {
		t.Errorf("the recording names%s", path)
	}
}
