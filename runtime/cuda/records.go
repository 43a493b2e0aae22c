package cuda

// The packages below internal that register records, by an import each:
