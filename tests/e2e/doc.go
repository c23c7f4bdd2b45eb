// Package e2e drives the tandemmq binary as an operator does: damaged stores, full disks, missing permissions, steps out
// of order. Every case says which exit code and which words it expects, and that nothing was changed that must not be.
package e2e
