package store

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tandemq/tandemmq/internal/property"
)

// properties are those of Options, in the order of the fields.
var properties = property.Fields[Options]()

// NoteKind is why a property has no effect.
type NoteKind int

// The kinds.
const (
	NoteUnknown NoteKind = iota // no property of the store, as far as this module knows
	NoteDead                    // RocketMQ 5.5.0 has it and never looks at it
	NoteUnused                  // RocketMQ uses it, this version has no need of it
)

// PropertyNote tells of a property that ParseOptions took and that has no effect.
type PropertyNote struct {
	Name    string
	Kind    NoteKind
	Nearest string // of NoteUnknown: the property of Options with the most similar name, "" when none is similar
	Warning string // of NoteUnused: what an operator who set it has to know, "" for nothing
}

func (n PropertyNote) String() string {
	switch {
	case n.Kind == NoteDead:
		return n.Name + ": without effect, as in RocketMQ 5.5.0"
	case n.Warning != "":
		return n.Name + ": without effect in this version: " + n.Warning
	case n.Kind == NoteUnused:
		return n.Name + ": without effect in this version"
	case n.Nearest != "":
		return n.Name + ": unknown; did you mean " + n.Nearest + "?"
	}
	return n.Name + ": unknown"
}

// ParseOptions returns the options that conf, named as in RocketMQ's broker.conf, make out of the defaults, checked by
// Validate. Properties without effect are listed, sorted by name, and no error: a broker.conf has many that are not the
// store's. The error joins every fault: a value that cannot be read, one out of bounds, and a property whose effect this
// module would have to fake.
func ParseOptions(conf map[string]string) (Options, []PropertyNote, error) {
	o := DefaultOptions()
	var notes []PropertyNote
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(conf)) {
		text := conf[name]
		if i := slices.IndexFunc(properties, func(p property.Field) bool { return p.Name == name }); i >= 0 {
			if err := properties[i].Set(&o, text); err != nil {
				faults = append(faults, fmt.Errorf("store options: %w", err))
			}
			continue
		}
		kind, known := otherProperties[name]
		switch {
		case name == refusedDLedger && strings.EqualFold(strings.TrimSpace(text), "true"):
			faults = append(faults, fmt.Errorf("store options: %s is true, which is not supported: its log has another format", name))
		case known:
			note := PropertyNote{Name: name, Kind: kind}
			if strings.EqualFold(strings.TrimSpace(text), "true") {
				note.Warning = otherDispatchers[name]
			}
			notes = append(notes, note)
		default:
			notes = append(notes, PropertyNote{Name: name, Kind: NoteUnknown, Nearest: property.Nearest(properties, name)})
		}
	}
	if err := o.Validate(); err != nil {
		faults = append(faults, err)
	}
	return o, notes, errors.Join(faults...)
}

// RestartOnly returns the properties that differ between two sets of options and that an open store does not take over, in
// the order of the fields; none: Store.SetOptions takes all of them. FS and Logger are no properties.
func RestartOnly(before, after Options) (names []string) {
	for i := range properties {
		if p := &properties[i]; !p.Live && p.Text(&before) != p.Text(&after) {
			names = append(names, p.Name)
		}
	}
	return names
}

// Properties returns the options by the name of their property, as a properties file has them.
func Properties(o *Options) map[string]string {
	all := make(map[string]string, len(properties))
	for i := range properties {
		all[properties[i].Name] = properties[i].Text(o)
	}
	return all
}
