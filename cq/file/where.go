package file

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/tandemq/tandemmq/internal/mappedfile"
)

// Where names the file and the byte of the slot's unit, as FILE+BYTE. The file need not exist.
func (q *queue) Where(queueOffset int64) string {
	at := queueOffset * unitBytes
	from := at / q.s.fileBytes * q.s.fileBytes
	return fmt.Sprintf("%s+%d", filepath.Join(q.s.dir, q.key.Topic, strconv.Itoa(int(q.key.QueueID)), mappedfile.Name(from)), at-from)
}
