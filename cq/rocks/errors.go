package rocks

import "fmt"

// NothingKeptError tells that no topic of the store is to be kept, which is more likely a list that was not read than the truth.
type NothingKeptError struct {
	Dir    string
	Topics int // that would all have been removed
}

func (e *NothingKeptError) Error() string {
	return fmt.Sprintf("clean queues in %s: none of %d topics is known, so none is removed; delete those that are to go by name", e.Dir, e.Topics)
}
