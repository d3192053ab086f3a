// SPDX-License-Identifier: Apache-2.0

// Package binding decides which ports are guests of this chassis, which guests are retained without a
// binding, and why other ports are no guests.
package binding
