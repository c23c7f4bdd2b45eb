package acl

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// addresses is a set of addresses; the zero value has none.
type addresses struct {
	all      bool
	exact    map[netip.Addr]struct{}
	prefixes []netip.Prefix
	patterns []pattern
}

// pattern has for each byte of an IPv4 address the values that it may have.
type pattern [4][]span

type span struct{ first, last byte }

// add takes up a text as whiteRemoteAddress has it: nothing, "*", or addresses separated by commas, each "10.1.2.3", with "*", "5-9" or "{1,2}" in place of a number,
// "10.0.0.0/8", or an IPv6 address, alone or with the length of a prefix.
func (a *addresses) add(text string) error {
	for _, one := range splitOutsideBraces(text) {
		one = strings.TrimSpace(one)
		switch one {
		case "":
		case "*":
			a.all = true
		default:
			if err := a.addOne(one); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *addresses) addOne(one string) error {
	if strings.Contains(one, "/") {
		p, err := netip.ParsePrefix(one)
		if err != nil {
			return fmt.Errorf("%q is no address with the length of its prefix, as 10.0.0.0/8", one)
		}
		a.prefixes = append(a.prefixes, p.Masked())
		return nil
	}
	if ip, err := netip.ParseAddr(one); err == nil {
		if a.exact == nil {
			a.exact = map[netip.Addr]struct{}{}
		}
		a.exact[ip.Unmap()] = struct{}{}
		return nil
	}
	var p pattern
	parts := strings.Split(one, ".")
	if len(parts) != len(p) {
		return fmt.Errorf("%q is no address: want four numbers, each alone, as 100-200, as {1,2} or *; *; 10.0.0.0/8; or an IPv6 address", one)
	}
	for i, part := range parts {
		spans, err := parseSpans(part)
		if err != nil {
			return fmt.Errorf("%q is no address: %w", one, err)
		}
		p[i] = spans
	}
	a.patterns = append(a.patterns, p)
	return nil
}

func splitOutsideBraces(text string) (list []string) {
	from, depth := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '{':
			depth++
		case '}':
			depth--
		case ',':
			if depth == 0 {
				list = append(list, text[from:i])
				from = i + 1
			}
		}
	}
	return append(list, text[from:])
}

// parseSpans reads one of the four parts.
func parseSpans(part string) (spans []span, err error) {
	if part == "*" {
		return []span{{0, 255}}, nil
	}
	if in, ok := strings.CutPrefix(part, "{"); ok {
		if part, ok = strings.CutSuffix(in, "}"); !ok {
			return nil, fmt.Errorf("%q has no closing brace", part)
		}
	} else if strings.Contains(part, ",") {
		return nil, fmt.Errorf("%q lists numbers without braces", part)
	}
	for one := range strings.SplitSeq(part, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(one), "-")
		if !isRange {
			last = first
		}
		low, err := strconv.ParseUint(first, 10, 8)
		high, err2 := strconv.ParseUint(last, 10, 8)
		if err != nil || err2 != nil || low > high {
			return nil, fmt.Errorf("%q is no number from 0 to 255, and no range of them", one)
		}
		spans = append(spans, span{byte(low), byte(high)})
	}
	return spans, nil
}

// has tells whether ip is in the set.
func (a *addresses) has(ip netip.Addr) bool {
	if a.all {
		return true
	}
	ip = ip.Unmap().WithZone("")
	if _, ok := a.exact[ip]; ok {
		return true
	}
	for _, p := range a.prefixes {
		if p.Contains(ip) {
			return true
		}
	}
	if len(a.patterns) == 0 || !ip.Is4() {
		return false
	}
	b := ip.As4()
	for i := range a.patterns {
		if a.patterns[i].has(b) {
			return true
		}
	}
	return false
}

func (p *pattern) has(b [4]byte) bool {
	for i := range b {
		in := false
		for _, s := range p[i] {
			in = in || b[i] >= s.first && b[i] <= s.last
		}
		if !in {
			return false
		}
	}
	return true
}
