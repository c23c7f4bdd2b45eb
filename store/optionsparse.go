package store

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// pathSeparator stands between the paths of a property that has several.
const pathSeparator = ","

// property is a field of Options that mirrors a property.
type property struct {
	name  string
	index int  // of the field
	live  bool // a running store can take a new value over
	own   bool // an addition, unknown to RocketMQ
}

// properties are those of Options, in the order of the fields.
var properties = listProperties()

func listProperties() (list []property) {
	t := reflect.TypeFor[Options]()
	for i := range t.NumField() {
		words := strings.Split(t.Field(i).Tag.Get("prop"), ",")
		if words[0] == "-" {
			continue
		}
		list = append(list, property{name: words[0], index: i, live: slices.Contains(words, "live"), own: slices.Contains(words, "own")})
	}
	return list
}

var durationType = reflect.TypeFor[time.Duration]()

// text returns the property's value in o as a properties file has it.
func (p *property) text(o *Options) string {
	switch v := reflect.ValueOf(o).Elem().Field(p.index); {
	case v.Type() == durationType:
		return strconv.FormatInt(time.Duration(v.Int()).Milliseconds(), 10)
	case v.Kind() == reflect.Slice:
		return strings.Join(v.Interface().([]string), pathSeparator)
	default:
		return fmt.Sprint(v.Interface())
	}
}

// set gives the property in o the value that a properties file has. Numbers are what Java's parseInt takes, and truth is
// true or false in any case; blanks around are dropped.
func (p *property) set(o *Options, text string) error {
	text = strings.TrimSpace(text)
	v := reflect.ValueOf(o).Elem().Field(p.index)
	switch v.Kind() {
	case reflect.Bool:
		yes := strings.EqualFold(text, "true")
		if !yes && !strings.EqualFold(text, "false") {
			return fmt.Errorf("%s is %q, want true or false", p.name, text)
		}
		v.SetBool(yes)
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err == nil && v.Type() == durationType {
			if n < 0 || n > math.MaxInt32 {
				return fmt.Errorf("%s is %d, want whole milliseconds from 1 to %d", p.name, n, math.MaxInt32)
			}
			n *= int64(time.Millisecond)
		}
		if err != nil {
			return fmt.Errorf("%s is %q, want a whole number", p.name, text)
		}
		v.SetInt(n)
	case reflect.Slice:
		var dirs []string
		if text != "" {
			dirs = strings.Split(text, pathSeparator)
		}
		for i := range dirs {
			dirs[i] = strings.TrimSpace(dirs[i])
		}
		v.Set(reflect.ValueOf(dirs))
	case reflect.String:
		v.SetString(text)
	default:
		panic("store: option " + p.name + " has a kind that set does not know")
	}
	return nil
}

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

// ParseOptions returns the options that props, named as in RocketMQ's broker.conf, make out of the defaults, checked by
// Validate. Properties without effect are listed, sorted by name, and no error: a broker.conf has many that are not the
// store's. The error joins every fault: a value that cannot be read, one out of bounds, and a property whose effect this
// module would have to fake.
func ParseOptions(props map[string]string) (Options, []PropertyNote, error) {
	o := DefaultOptions()
	var notes []PropertyNote
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(props)) {
		text := props[name]
		if i := slices.IndexFunc(properties, func(p property) bool { return p.name == name }); i >= 0 {
			if err := properties[i].set(&o, text); err != nil {
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
			notes = append(notes, PropertyNote{Name: name, Kind: NoteUnknown, Nearest: nearestProperty(name)})
		}
	}
	if err := o.Validate(); err != nil {
		faults = append(faults, err)
	}
	return o, notes, errors.Join(faults...)
}

// RestartOnly returns the properties that differ between two sets of options and that a running store cannot take over, in
// the order of the fields; none: everything that differs can change at run time. FS and Logger are no properties.
func RestartOnly(before, after Options) (names []string) {
	for i := range properties {
		if p := &properties[i]; !p.live && p.text(&before) != p.text(&after) {
			names = append(names, p.name)
		}
	}
	return names
}

// nearestProperty returns the property of Options that takes the fewest edits to become name, if that is at most a third of
// it.
func nearestProperty(name string) (nearest string) {
	fewest := len(name)/3 + 1
	for i := range properties {
		if n := editDistance(strings.ToLower(name), strings.ToLower(properties[i].name)); n < fewest {
			fewest, nearest = n, properties[i].name
		}
	}
	return nearest
}

// editDistance counts the bytes to insert, remove or replace to make b out of a.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
