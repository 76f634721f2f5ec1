// GORM: AutoMigrate and the Migrator, associations, clauses, JSON, transactions, errors.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"time"

	"gorm.io/datatypes"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

type Company struct {
	ID   uint
	Name string `gorm:"size:60;not null;uniqueIndex"`
}

type User struct {
	ID        uint64 `gorm:"primaryKey"`
	Name      string `gorm:"size:50;index:by_name,sort:desc,comment:a name"`
	Email     *string
	Age       uint8   `gorm:"check:age < 200"`
	Ratio     float64 `gorm:"default:1.5"`
	Active    bool    `gorm:"default:true"`
	Birthday  *time.Time
	Bytes     []byte
	Data      datatypes.JSON
	Note      string `gorm:"type:text"`
	Money     string `gorm:"type:decimal(10,2);default:0"`
	CompanyID *uint
	Company   *Company `gorm:"constraint:OnUpdate:CASCADE,OnDelete:SET NULL"`
	ManagerID *uint64
	Manager   *User
	Cards     []Card `gorm:"constraint:OnDelete:CASCADE"`
	Langs     []Lang `gorm:"many2many:user_langs"`
	Upper     string `gorm:"->;type:varchar(50) GENERATED ALWAYS AS (upper(name)) STORED"`
	CreatedAt time.Time
	DeletedAt gorm.DeletedAt `gorm:"index"`
}

type Card struct {
	ID     uint
	Number string `gorm:"size:20;uniqueIndex:un,where:1"`
	UserID uint64
}

type Lang struct {
	Code string `gorm:"primaryKey;size:5"`
}

var at = time.Date(2024, 2, 29, 1, 2, 3, 456000000, time.UTC)

func step(name string, work func() (any, error)) {
	got, err := work()
	text, _ := json.Marshal(got)
	if err != nil {
		text = []byte("error " + err.Error())
	}
	fmt.Printf("%s: %s\n", name, text)
}

func main() {
	dsn := fmt.Sprintf("root@tcp(127.0.0.1:%s)/%s?charset=utf8mb4&parseTime=True&loc=UTC", os.Getenv("DB_PORT"), os.Getenv("DB_NAME"))
	config := &gorm.Config{Logger: logger.Discard, NowFunc: func() time.Time { return at }, TranslateError: false}
	db, err := gorm.Open(mysql.Open(dsn), config)
	if err != nil {
		fmt.Println("open:", err)
		return
	}
	pool, _ := db.DB()
	pool.SetMaxOpenConns(1)
	all := []any{&Company{}, &User{}, &Card{}, &Lang{}}
	step("migrate", func() (any, error) { return nil, db.AutoMigrate(all...) })
	step("migrate again", func() (any, error) { return nil, db.AutoMigrate(all...) })
	mail := "a@x"
	step("create", func() (any, error) {
		c := Company{Name: "Acme"}
		users := []User{{Name: "Ada", Email: &mail, Age: 30, Birthday: &at, Bytes: []byte{0, 255}, Data: datatypes.JSON(`{"a":[1,"ü"],"n":5}`), Note: "it's", Money: "12.30", Company: &c, Cards: []Card{{Number: "1"}, {Number: "2"}}, Langs: []Lang{{Code: "de"}, {Code: "en"}}}, {Name: "Bob", Data: datatypes.JSON(`{"n":7}`)}}
		r := db.Create(&users)
		return []any{users[0].ID, users[1].ID, r.RowsAffected}, r.Error
	})
	step("batches", func() (any, error) {
		var us []User
		for i := 0; i < 7; i++ {
			us = append(us, User{Name: fmt.Sprint("u", i), Age: uint8(i), Data: datatypes.JSON("null")})
		}
		r := db.CreateInBatches(us, 3)
		return r.RowsAffected, r.Error
	})
	step("find", func() (any, error) {
		var us []User
		return &us, db.Preload("Cards").Preload("Langs").Joins("Company").Order("users.id").Limit(2).Find(&us).Error
	})
	step("conditions", func() (any, error) {
		var names []string
		return &names, db.Model(&User{}).Where("name LIKE ?", "u%").Where(db.Where("age > ?", 3).Or("age IN ?", []int{0, 1})).Not("name", "u4").Order("id").Pluck("name", &names).Error
	})
	step("json", func() (any, error) {
		var names []string
		return &names, db.Model(&User{}).Where(datatypes.JSONQuery("data").HasKey("a")).Or(datatypes.JSONQuery("data").Equals(7, "n")).Order("id").Pluck("name", &names).Error
	})
	step("json set", func() (any, error) {
		r := db.Model(&User{}).Where("name = ?", "Ada").UpdateColumn("data", datatypes.JSONSet("data").Set("{z}", 9))
		var u User
		db.First(&u, "name = ?", "Ada")
		return u.Data, r.Error
	})
	step("group", func() (any, error) {
		var rows []map[string]any
		return &rows, db.Model(&Card{}).Select("user_id, count(*) AS n, group_concat(number order by number) AS g").Group("user_id").Having("n > ?", 0).Find(&rows).Error
	})
	step("subquery", func() (any, error) {
		var n int64
		return &n, db.Model(&User{}).Where("age >= (?)", db.Model(&User{}).Select("AVG(age)")).Count(&n).Error
	})
	step("update", func() (any, error) {
		r := db.Model(&User{}).Where("age > ?", 4).Updates(map[string]any{"note": gorm.Expr("CONCAT(note, ?)", "!"), "active": false})
		return r.RowsAffected, r.Error
	})
	step("upsert", func() (any, error) {
		r := db.Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "name"}}, DoUpdates: clause.AssignmentColumns([]string{"name"})}).Create(&[]Company{{Name: "Acme"}, {Name: "Beta"}})
		return r.RowsAffected, r.Error
	})
	step("do nothing", func() (any, error) {
		r := db.Clauses(clause.OnConflict{DoNothing: true}).Create(&Company{Name: "Acme"})
		return r.RowsAffected, r.Error
	})
	step("insert ignore", func() (any, error) {
		r := db.Clauses(clause.Insert{Modifier: "IGNORE"}).Create(&Lang{Code: "de"})
		return r.RowsAffected, r.Error
	})
	step("first or create", func() (any, error) {
		var c Company
		r := db.Where(Company{Name: "Gamma"}).FirstOrCreate(&c)
		return r.RowsAffected, r.Error
	})
	step("save", func() (any, error) {
		var u User
		db.First(&u, 2)
		u.Name, u.ManagerID = "Robert", new(uint64)
		*u.ManagerID = 1
		return nil, db.Save(&u).Error
	})
	step("duplicate", func() (any, error) { return nil, db.Create(&Company{Name: "ACME"}).Error })
	step("check", func() (any, error) { return nil, db.Model(&User{}).Where("id = 1").Update("age", 201).Error })
	step("no parent", func() (any, error) { return nil, db.Create(&Card{Number: "9", UserID: 999}).Error })
	step("too long", func() (any, error) { return nil, db.Create(&Lang{Code: "toolong"}).Error })
	step("not found", func() (any, error) {
		var u User
		return errors.Is(db.First(&u, 12345).Error, gorm.ErrRecordNotFound), nil
	})
	step("rollback", func() (any, error) {
		_ = db.Transaction(func(tx *gorm.DB) error { tx.Create(&Lang{Code: "xx"}); return errors.New("no") })
		var n int64
		return &n, db.Model(&Lang{}).Count(&n).Error
	})
	step("nested", func() (any, error) {
		err := db.Transaction(func(tx *gorm.DB) error {
			tx.Create(&Lang{Code: "fr"})
			_ = tx.Transaction(func(t2 *gorm.DB) error { t2.Create(&Lang{Code: "yy"}); return errors.New("no") })
			return nil
		})
		var codes []string
		db.Model(&Lang{}).Order("code").Pluck("code", &codes)
		return codes, err
	})
	for _, strength := range []string{"UPDATE", "SHARE"} {
		for _, option := range []string{"", "NOWAIT", "SKIP LOCKED"} {
			step("lock "+strength+" "+option, func() (any, error) {
				var ids []uint64
				err := db.Transaction(func(tx *gorm.DB) error {
					return tx.Model(&User{}).Clauses(clause.Locking{Strength: strength, Options: option}).Where("id < 3").Order("id").Pluck("id", &ids).Error
				})
				return ids, err
			})
		}
	}
	step("prepared", func() (any, error) {
		s := db.Session(&gorm.Session{PrepareStmt: true})
		var a, b User
		s.Select("id", "name").First(&a, 1)
		return []string{a.Name, b.Name}, s.Select("id", "name").First(&b, 2).Error
	})
	step("association", func() (any, error) {
		var u User
		db.First(&u, 1)
		a := db.Model(&u).Association("Langs")
		if err := a.Append(&Lang{Code: "it"}); err != nil {
			return nil, err
		}
		if err := a.Delete(&Lang{Code: "de"}); err != nil {
			return nil, err
		}
		return a.Count(), a.Replace([]Lang{{Code: "en"}})
	})
	step("soft delete", func() (any, error) {
		r := db.Delete(&User{}, 3)
		var n, m int64
		db.Model(&User{}).Count(&n)
		db.Unscoped().Model(&User{}).Count(&m)
		return []int64{r.RowsAffected, n, m}, r.Error
	})
	step("cascade", func() (any, error) {
		db.Model(&User{}).Where("id = 2").Update("manager_id", nil)
		db.Exec("DELETE FROM user_langs")
		r := db.Unscoped().Delete(&User{}, 1)
		var n int64
		db.Model(&Card{}).Count(&n)
		return []int64{r.RowsAffected, n}, r.Error
	})
	m := db.Migrator()
	step("has", func() (any, error) {
		return []bool{m.HasTable(&User{}), m.HasTable("nope"), m.HasColumn(&User{}, "Name"), m.HasIndex(&User{}, "by_name"), m.HasConstraint(&User{}, "Company"), m.HasConstraint(&User{}, "chk_users_age"), m.HasColumn(&User{}, "nope")}, nil
	})
	step("columns", func() (any, error) {
		types, err := m.ColumnTypes(&User{})
		var out []string
		for _, t := range types {
			full, _ := t.ColumnType()
			length, _ := t.Length()
			null, _ := t.Nullable()
			def, ok := t.DefaultValue()
			key, _ := t.PrimaryKey()
			unique, _ := t.Unique()
			comment, _ := t.Comment()
			precision, scale, _ := t.DecimalSize()
			out = append(out, fmt.Sprint(t.Name(), " ", t.DatabaseTypeName(), " ", full, " ", length, " ", null, " ", def, ok, key, unique, comment, precision, scale))
		}
		sort.Strings(out)
		return out, err
	})
	step("indexes", func() (any, error) {
		found, err := m.GetIndexes(&User{})
		var out []string
		for _, i := range found {
			u, _ := i.Unique()
			p, _ := i.PrimaryKey()
			out = append(out, fmt.Sprint(i.Name(), i.Columns(), u, p))
		}
		sort.Strings(out)
		return out, err
	})
	step("tables", func() (any, error) { t, err := m.GetTables(); sort.Strings(t); return t, err })
	type Changed struct {
		ID   uint64
		Name string `gorm:"size:80;not null;default:n"`
		Age  uint16
		More *int `gorm:"index;comment:new"`
	}
	step("alter", func() (any, error) { return nil, db.Table("users").AutoMigrate(&Changed{}) })
	step("alter column", func() (any, error) { return nil, db.Table("users").Migrator().AlterColumn(&Changed{}, "Age") })
	step("rename column", func() (any, error) { return nil, m.RenameColumn(&User{}, "note", "notes") })
	step("drop column", func() (any, error) { return nil, m.DropColumn(&User{}, "bytes") })
	step("drop constraint", func() (any, error) { return nil, m.DropConstraint(&User{}, "Company") })
	step("create constraint", func() (any, error) { return nil, m.CreateConstraint(&User{}, "Company") })
	step("rename index", func() (any, error) { return nil, m.RenameIndex(&User{}, "by_name", "renamed") })
	step("drop index", func() (any, error) { return nil, m.DropIndex(&User{}, "renamed") })
	step("view", func() (any, error) {
		return nil, m.CreateView("grown", gorm.ViewOption{Replace: true, Query: db.Table("users").Where("age > ?", 3)})
	})
	step("rename table", func() (any, error) { return nil, m.RenameTable(&Lang{}, "languages") })
	step("drop referenced", func() (any, error) { return nil, db.Exec("DROP TABLE companies").Error })
	step("drop table", func() (any, error) { return nil, m.DropTable(&Card{}) })
}
