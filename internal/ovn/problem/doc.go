// SPDX-License-Identifier: Apache-2.0

// Package problem records the unusable values of the databases. Each row or network has a [Set]. A [Registry]
// sums all present sets, and reports new problems.
package problem
