package store

// pathSeparator stands between the paths of a property that has several.
const pathSeparator = ","
