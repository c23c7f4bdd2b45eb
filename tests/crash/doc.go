// Package crash kills processes at random moments, the tandemmq binary and one that puts messages, and checks what a fresh
// process finds. SIGKILL keeps the page cache: these tests prove the order of our steps and their repeatability, not
// survival of a power cut.
package crash
